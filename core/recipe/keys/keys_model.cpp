// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

// Far above any model in use, and low enough that products of two sizes stay far within 64 bits.
constexpr IntegerRange width_range{1, 1 << 20};
constexpr IntegerRange head_range{1, 1 << 16};
constexpr IntegerRange ffn_range{1, 1 << 24};
constexpr IntegerRange token_range{1, 1 << 27};
constexpr IntegerRange sequence_range{1, 1 << 24};

constexpr std::array<std::string_view, 3> architecture_words = {"gpt2", "gpt-rope", "llama"};
constexpr std::array<std::string_view, 3> activation_words = {"gelu", "gelu_tanh", "swiglu"};
constexpr std::array<std::string_view, 2> norm_words = {"layernorm", "rmsnorm"};
constexpr std::array<std::string_view, 2> position_words = {"learned", "rope"};
constexpr std::array<std::string_view, 3> rope_scaling_words = {"linear", "llama3", "yarn"};
constexpr std::array<std::string_view, 2> router_words = {"linear", "cosine"};
constexpr std::array<std::string_view, 2> priority_words = {"position", "score"};
constexpr std::array<std::string_view, 3> balance_loss_words = {"gshard", "load_importance", "none"};

// The defaults that `model.architecture` selects; each key can be overridden.
struct Preset {
  Position position{};
  NormKind norm{};
  double norm_eps = 0;
  Activation activation{};
  bool bias = false;
  bool qkv_bias = false;
  bool qk_norm = false;
  bool tie_embeddings = false;
};

const Preset& preset_of(Architecture architecture) {
  // In the order of Architecture: gpt2, gpt_rope, llama.
  static constexpr std::array<Preset, 3> presets = {{
      {Position::learned, NormKind::layernorm, 1e-5, Activation::gelu_tanh, true, true, false, true},
      {Position::rope, NormKind::layernorm, 1e-5, Activation::gelu_tanh, true, true, false, false},
      {Position::rope, NormKind::rmsnorm, 1e-5, Activation::swiglu, false, false, false, false},
  }};
  return presets[static_cast<std::size_t>(architecture)];
}

// gpt2 and gpt-rope: 4·hidden. llama: 8·hidden/3, rounded up to a multiple of 256 (Touvron et al., arXiv 2302.13971).
std::int64_t preset_ffn_hidden_size(Architecture architecture, std::int64_t hidden_size) {
  if (architecture != Architecture::llama) return 4 * hidden_size;
  constexpr std::int64_t multiple = 256;
  // Rounded up in integers, so that no floating-point error moves a width across a multiple.
  const auto unrounded = (8 * hidden_size + 2) / 3;
  return (unrounded + multiple - 1) / multiple * multiple;
}

// "gpt2 learned, gpt-rope rope, llama rope": a member of each preset, by its word.
template <class Field>
std::string by_architecture(Field Preset::*member, Words words) {
  std::string text;
  for (std::size_t i = 0; i < architecture_words.size(); ++i) {
    const auto value = preset_of(static_cast<Architecture>(i)).*member;
    if (i > 0) text += ", ";
    text.append(architecture_words[i]).append(" ").append(words[static_cast<std::size_t>(value)]);
  }
  return text;
}

std::string by_architecture(bool Preset::*member) {
  constexpr std::array<std::string_view, 2> words = {"false", "true"};
  return by_architecture(member, words);
}

void describe_shape(KeyVisitor& keys, ModelRecipe& model) {
  // Read before all keys (core/recipe/model_from): what has been read holds the model itself.
  std::optional<std::string> from;
  keys.nullable_text({"from",
                      "Source of this section's keys and, unless training.init_from is given, of the initial weights: "
                      "null, a checkpoint's folder, a run's directory, or \"hf:\" and a Hugging Face model's folder."},
                     from, {TextKind::checkpoint_source});
  keys.choice({"architecture", "Preset that sets the defaults of the other keys; each can be overridden."},
              model.architecture, architecture_words);
  keys.integer({"layers", "Number of transformer layers.", "", Presence::required_without_from}, model.layers,
               layer_range);
  keys.integer({"hidden_size", "Width of the residual stream.", "", Presence::required_without_from}, model.hidden_size,
               width_range);
  keys.integer({"heads", "Query heads per attention layer.", "", Presence::required_without_from}, model.heads,
               head_range);
  keys.integer(
      {"kv_heads", "Key and value heads per attention layer; fewer than heads gives grouped-query attention.", "heads"},
      keys.otherwise(model.kv_heads, model.heads), head_range);
  keys.integer({"head_dim", "Dimension of each head.", "hidden_size / heads"},
               keys.otherwise(model.head_dim, model.heads > 0 ? model.hidden_size / model.heads : 0), width_range);
  keys.integer({"ffn_hidden_size", "Inner width of the feed-forward block.",
                "4 × hidden_size; llama 8/3 × hidden_size, rounded up to a multiple of 256"},
               keys.otherwise(model.ffn_hidden_size, preset_ffn_hidden_size(model.architecture, model.hidden_size)),
               ffn_range);
  keys.integer(
      {"vocab_size", "Vocabulary size: token ids are 0 to vocab_size - 1.", "", Presence::required_without_from},
      model.vocab_size, token_range);
  keys.integer({"max_sequence_length", "Longest sequence that the model accepts, in tokens.", "",
                Presence::required_without_from},
               model.max_sequence_length, sequence_range);
}

void describe_preset_words(KeyVisitor& keys, ModelRecipe& model, const Preset& preset) {
  keys.choice({"activation", "Activation function of the feed-forward block.",
               by_architecture(&Preset::activation, activation_words)},
              keys.otherwise(model.activation, preset.activation), activation_words);
  keys.choice({"norm", "Type of normalization.", by_architecture(&Preset::norm, norm_words)},
              keys.otherwise(model.norm, preset.norm), norm_words);
  keys.number({"norm_eps", "Epsilon added to the variance in norms."}, keys.otherwise(model.norm_eps, preset.norm_eps),
              {0, 1, RangeEnds::open_minimum});
  keys.choice({"position", "Position encoding: a learned embedding or rotary embeddings (RoPE).",
               by_architecture(&Preset::position, position_words)},
              keys.otherwise(model.position, preset.position), position_words);
}

void describe_preset_switches(KeyVisitor& keys, ModelRecipe& model, const Preset& preset) {
  keys.boolean({"bias", "Biases in all linear layers except query, key and value, and in layernorms.",
                by_architecture(&Preset::bias)},
               keys.otherwise(model.bias, preset.bias));
  keys.boolean({"qkv_bias", "Biases in the query, key and value projections.", by_architecture(&Preset::qkv_bias)},
               keys.otherwise(model.qkv_bias, preset.qkv_bias));
  keys.boolean({"qk_norm", "Normalizes the queries and keys of each head.", by_architecture(&Preset::qk_norm)},
               keys.otherwise(model.qk_norm, preset.qk_norm));
  keys.boolean({"tie_embeddings", "The output head shares the token embedding's weights.",
                by_architecture(&Preset::tie_embeddings)},
               keys.otherwise(model.tie_embeddings, preset.tie_embeddings));
}

// As transformers has it by default.
double default_attention_factor(const RopeScalingRecipe& scaling) {
  return scaling.type == RopeScalingType::yarn && scaling.factor > 1 ? 0.1 * std::log(scaling.factor) + 1 : 1;
}

void describe_rope_scaling(KeyVisitor& keys, RopeScalingRecipe& scaling, const ModelRecipe& model) {
  keys.choice({"type", "Positions divided by the factor, or only those of low frequencies as in Llama 3.1 or YaRN.", "",
               Presence::required},
              scaling.type, rope_scaling_words);
  keys.number({"factor", "How many times longer sequences may be.", "", Presence::required}, scaling.factor, {1, 1e6});
  keys.integer({"original_max_sequence_length", "Longest sequence before the scaling; not used by linear.",
                "model.max_sequence_length"},
               keys.otherwise(scaling.original_max_sequence_length, model.max_sequence_length), sequence_range);
  keys.number({"low_frequency_factor", "llama3: pairs that turn less often within the original length are divided."},
              scaling.low_frequency_factor, {0, 1e6, RangeEnds::open_minimum});
  keys.number({"high_frequency_factor", "llama3: pairs that turn more often are unchanged."},
              scaling.high_frequency_factor, {0, 1e6, RangeEnds::open_minimum});
  keys.number({"beta_fast", "yarn: pairs that turn more often within the original length are unchanged."},
              scaling.beta_fast, {0, 1e6, RangeEnds::open_minimum});
  keys.number({"beta_slow", "yarn: pairs that turn less often are divided."}, scaling.beta_slow,
              {0, 1e6, RangeEnds::open_minimum});
  keys.number({"attention_factor", "yarn: factor of rotated queries and of rotated keys.", "0.1 × ln(factor) + 1"},
              keys.otherwise(scaling.attention_factor, default_attention_factor(scaling)),
              {0, 1e6, RangeEnds::open_minimum});
  keys.boolean({"truncate", "yarn: the division begins and ends at whole pairs."}, scaling.truncate);
}

void describe_experts(KeyVisitor& keys, MixtureOfExpertsRecipe& moe, const ModelRecipe& model) {
  keys.integer({"experts", "Routed experts per layer.", "", Presence::required}, moe.experts, head_range);
  keys.integer({"top_k", "Experts that each token is routed to."}, moe.top_k, head_range);
  keys.integer({"every", "Interval of layers with experts: 1 gives all layers experts, 2 every second one."}, moe.every,
               layer_range);
  keys.number({"capacity_factor",
               "Above 0: an expert's capacity is this multiple of its even share of tokens, and the rest are dropped; "
               "0: no token is dropped; below 0: none is dropped up to that multiple of the even share."},
              moe.capacity_factor, {-1e6, 1e6});
  keys.integer({"ffn_hidden_size", "Inner width of one expert.", "model.ffn_hidden_size"},
               keys.otherwise(moe.ffn_hidden_size, model.ffn_hidden_size), ffn_range);
  keys.integer({"shared_experts", "Experts that process every token."}, moe.shared_experts, {0, 1 << 10});
  keys.boolean(
      {"shared_gate", "The shared experts' output is multiplied by the sigmoid of a linear gate, as in Qwen2-MoE."},
      moe.shared_gate);
  keys.choice({"router", "How the router scores tokens."}, moe.router, router_words);
  keys.boolean(
      {"normalize_gates",
       "A token's gates, the softmax over all experts of those that it is routed to, are divided by their sum.",
       "top_k > 1"},
      keys.otherwise(moe.normalize_gates, moe.top_k > 1));
  keys.choice({"priority", "Which tokens get an expert's capacity first: earlier ones, or those with higher scores."},
              moe.priority, priority_words);
  keys.choice({"balance_loss", "Auxiliary loss that balances tokens over experts."}, moe.balance_loss,
              balance_loss_words);
  keys.number({"balance_coefficient", "Coefficient of the balance loss."}, moe.balance_coefficient, {0, 1e6});
  keys.number({"z_coefficient", "Coefficient of the router's z-loss; 0: off."}, moe.z_coefficient, {0, 1e6});
  keys.number({"jitter", "Router inputs are scaled by a random factor within 1 ± jitter in training; 0: off."},
              moe.jitter, {0, 1, RangeEnds::open_maximum});
  const double noise = moe.balance_loss == BalanceLoss::load_importance ? 1 : 0;
  keys.number({"gate_noise",
               "Standard deviation, times the number of experts, of normal noise that a router's logits get in "
               "training; 0: none.",
               "1 with balance_loss \"load_importance\", else 0"},
              keys.otherwise(moe.gate_noise, noise), {0, 1e6});
  keys.nullable_number({"routing_zipf",
                        "Tokens choose expert i (from 1) with a frequency of 1 / i to this power, whatever the "
                        "routers say: what plan prices and run measures. 0: even; null: the routers decide."},
                       moe.routing_zipf, {0, 100});
  keys.nullable_text({"routing_trace",
                      "A run's routing.jsonl (log.routing), which tokens follow, step by step and layer by layer, "
                      "whatever the routers say."},
                     moe.routing_trace, {TextKind::path});
}

void describe_lora(KeyVisitor& keys, LoraRecipe& lora) {
  keys.integer({"rank", "Rows of A and columns of B."}, lora.rank, {1, 1 << 16});
  keys.number({"alpha", "Adapters are multiplied by alpha ÷ rank."}, lora.alpha, {0, 1e9, RangeEnds::open_minimum});
  keys.boolean({"rank_stabilized", "Adapters are multiplied by alpha ÷ √rank instead (rsLoRA)."}, lora.rank_stabilized);
  keys.texts({"targets",
              "Patterns of names of the layers' matrices that get adapters, with * for any text; or modules of "
              "transformers, such as q_proj, or all-linear."},
             lora.targets, "a list of patterns");
}

}  // namespace

void describe_model(KeyVisitor& keys, ModelRecipe& model) {
  keys.section({"model", "The model."}, [&] {
    describe_shape(keys, model);
    const auto& preset = preset_of(model.architecture);
    describe_preset_words(keys, model, preset);
    keys.number({"rope_theta", "Base of the rotary embeddings' wavelengths; used only if position is rope."},
                model.rope_theta, {1, 1e12, RangeEnds::open_minimum});
    keys.optional_section({"rope_scaling", "Rotary positions beyond the length of earlier training; null: none."},
                          model.rope_scaling,
                          [&](RopeScalingRecipe& scaling) { describe_rope_scaling(keys, scaling, model); });
    describe_preset_switches(keys, model, preset);
    keys.number(
        {"dropout", "Dropout probability after embedding, attention and feed-forward, and of attention probabilities."},
        model.dropout, {0, 1, RangeEnds::open_maximum});
    keys.number({"init_std", "Standard deviation of the initial weights."}, model.init_std, {0, 10});
    keys.optional_section({"moe", "Mixture of experts; null: every layer is dense."}, model.moe,
                          [&](MixtureOfExpertsRecipe& moe) { describe_experts(keys, moe, model); });
    keys.optional_section({"lora", "Low-rank adapters, which are trained in place of the model; null: none."},
                          model.lora, [&](LoraRecipe& lora) { describe_lora(keys, lora); });
  });
}

}  // namespace llmtrain
