// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

constexpr IntegerRange token_range{1, 1 << 27};
constexpr IntegerRange image_range{1, 2048};

constexpr std::array<std::string_view, 9> architecture_words = {"gpt2", "gpt-rope", "llama", "bert",  "roberta",
                                                                "bart", "t5",       "vit",   "resnet"};
constexpr std::array<std::string_view, 8> activation_words = {"gelu",   "gelu_tanh", "relu",       "squared_relu",
                                                              "swiglu", "geglu",     "geglu_tanh", "clamped_swiglu"};
constexpr std::array<std::string_view, 3> norm_words = {"layernorm", "rmsnorm", "groupnorm"};
constexpr std::array<std::string_view, 2> residual_words = {"basic", "bottleneck"};
constexpr std::array<std::string_view, 4> position_words = {"learned", "rope", "relative", "none"};
constexpr std::array<std::string_view, 3> classified_words = {"sequence", "token", "span"};
constexpr std::array<std::string_view, 2> lora_base_words = {"compute", "nf4"};
constexpr std::array<std::string_view, 3> rope_scaling_words = {"linear", "llama3", "yarn"};

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
  // In the order of Architecture: gpt2, gpt_rope, llama, bert, roberta, bart, t5, vit, resnet.
  static constexpr std::array<Preset, 9> presets = {{
      {Position::learned, NormKind::layernorm, 1e-5, Activation::gelu_tanh, true, true, false, true},
      {Position::rope, NormKind::layernorm, 1e-5, Activation::gelu_tanh, true, true, false, false},
      {Position::rope, NormKind::rmsnorm, 1e-5, Activation::swiglu, false, false, false, false},
      {Position::learned, NormKind::layernorm, 1e-12, Activation::gelu, true, true, false, true},
      {Position::learned, NormKind::layernorm, 1e-5, Activation::gelu, true, true, false, true},
      {Position::learned, NormKind::layernorm, 1e-5, Activation::gelu, true, true, false, true},
      {Position::relative, NormKind::rmsnorm, 1e-6, Activation::relu, false, false, false, true},
      {Position::learned, NormKind::layernorm, 1e-12, Activation::gelu, true, true, false, false},
      {Position::none, NormKind::groupnorm, 1e-5, Activation::relu, true, true, false, false},
  }};
  return presets[static_cast<std::size_t>(architecture)];
}

// All but llama and resnet: 4·hidden. llama: 8·hidden/3, rounded up to a multiple of 256 (Touvron et al., arXiv
// 2302.13971).
std::int64_t preset_ffn_hidden_size(Architecture architecture, std::int64_t hidden_size) {
  if (architecture == Architecture::resnet) return hidden_size;
  if (architecture != Architecture::llama) return 4 * hidden_size;
  constexpr std::int64_t multiple = 256;
  // Rounded up in integers, so that no floating-point error moves a width across a multiple.
  const auto unrounded = (8 * hidden_size + 2) / 3;
  return (unrounded + multiple - 1) / multiple * multiple;
}

bool has_own_deviations(Architecture architecture) {
  return architecture == Architecture::t5 || architecture == Architecture::resnet;
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

std::int64_t default_head_dim(const ModelRecipe& model) {
  if (model.latent_attention) return model.latent_attention->head_dim();
  return model.heads > 0 ? model.hidden_size / model.heads : 0;
}

void describe_latent_attention(KeyVisitor& keys, LatentAttentionRecipe& latent) {
  keys.integer({"query_rank", "Width of the vector from which a token's queries are made; 0: they are made at once."},
               latent.query_rank, {0, width_range.maximum});
  keys.integer(
      {"key_value_rank", "Width of the vector from which a token's keys and values are made.", "", Presence::required},
      latent.key_value_rank, width_range);
  keys.integer({"nope_head_dim", "Elements of each query and key without a position.", "", Presence::required},
               latent.nope_head_dim, width_range);
  keys.integer({"rope_head_dim",
                "Elements of each query and key that are rotated; those of the keys are the same in "
                "all heads.",
                "", Presence::required},
               latent.rope_head_dim, width_range);
  keys.integer({"value_head_dim", "Elements of each value.", "", Presence::required}, latent.value_head_dim,
               width_range);
}

void describe_image(KeyVisitor& keys, ImageInputRecipe& image, Architecture architecture) {
  keys.integer({"size", "Pixels of an image's side."}, image.size, image_range);
  keys.integer({"patch", "Pixels of a patch's side, of which each becomes a row; divides size.", "16; resnet size"},
               keys.otherwise(image.patch, architecture == Architecture::resnet ? image.size : 16), image_range);
  keys.integer({"channels", "Numbers of a pixel; those of files are red, green and blue."}, image.channels, {1, 64});
}

void describe_resnet(KeyVisitor& keys, ResnetRecipe& resnet) {
  keys.choice({"block", "Two convolutions of 3×3, or one of 3×3 between two of 1×1, with a quarter of the channels."},
              resnet.block, residual_words);
  keys.integer({"stem_channels", "Channels that the first convolution makes, of 7×7."}, resnet.stem_channels,
               width_range);
  keys.integer({"groups", "Groups of channels in each norm; divides the channels of each convolution."}, resnet.groups,
               width_range);
  keys.list(
      {"stages", "Stages, each of which but the first halves height and width."}, resnet.stages,
      [&](ResnetRecipe::Stage& stage) {
        keys.integer({"blocks", "Residual blocks of the stage.", "", Presence::required}, stage.blocks, layer_range);
        keys.integer({"channels", "Channels that its blocks make.", "", Presence::required}, stage.channels,
                     width_range);
      });
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
  keys.optional_section({"resnet", "The stages of a resnet; null: a model has transformer layers."}, model.resnet,
                        [&](ResnetRecipe& resnet) { describe_resnet(keys, resnet); });
  const auto& resnet = model.resnet;
  keys.integer({"layers", "Number of transformer layers. With resnet the blocks of its stages.", "",
                Presence::required_of_transformers},
               keys.otherwise(model.layers, resnet ? resnet->blocks() : model.layers), layer_range);
  keys.integer({"decoder_layers", "Layers of the decoder of an encoder-decoder, whose encoder has model.layers.",
                "bart and t5 layers; others 0"},
               keys.otherwise(model.decoder_layers, is_encoder_decoder(model.architecture) ? model.layers : 0),
               {0, layer_range.maximum});
  keys.integer({"hidden_size", "Width of the residual stream. With resnet the channels of its last stage.", "",
                Presence::required_of_transformers},
               keys.otherwise(model.hidden_size, resnet ? resnet->channels() : model.hidden_size), width_range);
  keys.integer({"heads", "Query heads per attention layer. With resnet 1.", "", Presence::required_of_transformers},
               keys.otherwise(model.heads, resnet ? 1 : model.heads), head_range);
  keys.optional_section({"latent_attention",
                         "Multi-head latent attention: queries, and keys with values, pass through narrow projections, "
                         "as in DeepSeek-V2; null: each head has projections of its own. Planned, not run."},
                        model.latent_attention,
                        [&](LatentAttentionRecipe& latent) { describe_latent_attention(keys, latent); });
  keys.integer(
      {"kv_heads", "Key and value heads per attention layer; fewer than heads gives grouped-query attention.", "heads"},
      keys.otherwise(model.kv_heads, model.heads), head_range);
  keys.integer({"head_dim", "Dimension of each head's queries and keys.",
                "hidden_size / heads; with latent_attention nope_head_dim + rope_head_dim"},
               keys.otherwise(model.head_dim, default_head_dim(model)), width_range);
  keys.integer({"ffn_hidden_size", "Inner width of the feed-forward block.",
                "4 × hidden_size; llama 8/3 × hidden_size, rounded up to a multiple of 256; resnet hidden_size"},
               keys.otherwise(model.ffn_hidden_size, preset_ffn_hidden_size(model.architecture, model.hidden_size)),
               ffn_range);
  keys.optional_section({"image", "The images that a vit or a resnet reads; null: a model reads tokens."}, model.image,
                        [&](ImageInputRecipe& image) { describe_image(keys, image, model.architecture); });
  keys.integer(
      {"vocab_size", "Vocabulary size: token ids are 0 to vocab_size - 1. Beside from: its own, or more. With image 1.",
       "", Presence::required_of_tokens},
      keys.otherwise(model.vocab_size, model.image ? 1 : model.vocab_size), token_range);
  keys.integer(
      {"max_sequence_length",
       "Longest sequence that the model accepts, in tokens. With image 1 + (size ÷ patch)², the rows of one; with "
       "resnet, too, 1.",
       "", Presence::required_of_tokens},
      keys.otherwise(model.max_sequence_length, model.image ? model.image_rows() : model.max_sequence_length),
      sequence_range);
}

void describe_preset_words(KeyVisitor& keys, ModelRecipe& model, const Preset& preset) {
  keys.choice({"activation", "Activation function of the feed-forward block.",
               by_architecture(&Preset::activation, activation_words)},
              keys.otherwise(model.activation, preset.activation), activation_words);
  keys.choice({"norm", "Type of normalization.", by_architecture(&Preset::norm, norm_words)},
              keys.otherwise(model.norm, preset.norm), norm_words);
  keys.number({"norm_eps", "Epsilon added to the variance in norms."}, keys.otherwise(model.norm_eps, preset.norm_eps),
              {0, 1, RangeEnds::open_minimum});
  keys.choice({"position",
               "Position encoding: a learned embedding, rotary embeddings (RoPE), T5's bias of attention's scores, or "
               "none, which decoders run on CPUs.",
               by_architecture(&Preset::position, position_words)},
              keys.otherwise(model.position, preset.position), position_words);
}

void describe_preset_switches(KeyVisitor& keys, ModelRecipe& model, const Preset& preset) {
  keys.boolean(
      {"bias", "Biases in all linear layers except attention's, and in layernorms.", by_architecture(&Preset::bias)},
      keys.otherwise(model.bias, preset.bias));
  keys.boolean({"qkv_bias", "Biases in the query, key and value projections.", by_architecture(&Preset::qkv_bias)},
               keys.otherwise(model.qkv_bias, preset.qkv_bias));
  keys.boolean({"attention_output_bias", "A bias in attention's output projection.", "model.bias"},
               keys.otherwise(model.attention_output_bias, model.bias));
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

void describe_classifier(KeyVisitor& keys, ClassifierRecipe& classifier) {
  keys.choice({"of",
               "What has a class: a sequence as a whole, or each of its tokens; span: one token is the start of an "
               "answer, and one its end."},
              classifier.of, classified_words);
  keys.texts(
      {"classes", "Names of the classes, in the order of the logits; of a span start and end.", "", Presence::required},
      classifier.classes, "a list of names");
}

void describe_lora(KeyVisitor& keys, LoraRecipe& lora) {
  keys.integer({"rank", "Rows of A and columns of B."}, lora.rank, {1, 1 << 16});
  keys.number({"alpha", "Adapters are multiplied by alpha ÷ rank."}, lora.alpha, {0, 1e9, RangeEnds::open_minimum});
  keys.boolean({"rank_stabilized", "Adapters are multiplied by alpha ÷ √rank instead (rsLoRA)."}, lora.rank_stabilized);
  keys.boolean({"dora", "Each row of an adapted matrix has a magnitude of its own, apart from its direction (DoRA)."},
               lora.dora);
  keys.number({"dropout", "Dropout probability of each adapter's input, in training."}, lora.dropout,
              {0, 1, RangeEnds::open_maximum});
  keys.texts({"targets",
              "Patterns of names of the layers' matrices that get adapters, with * for any text; or modules of "
              "transformers, such as q_proj, or all-linear."},
             lora.targets, "a list of patterns");
  keys.texts({"modules_to_save",
              "Patterns of names of modules that are trained as a whole beside adapters, such as head, with * for any "
              "text; or modules of transformers, such as embed_tokens."},
             lora.modules_to_save, "a list of patterns");
  keys.choice(
      {"base",
       "How the layers' frozen matrices are kept: in the compute type, or in 4-bit NormalFloat with a scale per 64 "
       "elements (QLoRA), from which each product makes them again. nf4 planned, not run."},
      lora.base, lora_base_words);
  keys.boolean(
      {"double_quantization", "With nf4: scales have 8 bits, and one scale of their own for each 256 of them."},
      lora.double_quantization);
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
    keys.optional_section({"sliding_window",
                           "Local attention: queries of most or all layers see the latest tokens alone; null: all "
                           "see all tokens before them. Run on CPUs."},
                          model.sliding_window,
                          [&](SlidingWindowRecipe& window) { describe_sliding_window(keys, window, model); });
    describe_layer_variants(keys, model);
    describe_preset_switches(keys, model, preset);
    keys.number({"dropout",
                 "Dropout probability after embedding, attention and feed-forward, and of attention probabilities but "
                 "in bart and t5, which have it behind activations."},
                model.dropout, {0, 1, RangeEnds::open_maximum});
    keys.number(
        {"init_std",
         "Standard deviation of the initial weights; of t5 and resnet a factor of those that their authors give each.",
         "0.02; t5 and resnet 1"},
        keys.otherwise(model.init_std, has_own_deviations(model.architecture) ? 1 : 0.02), {0, 10});
    keys.optional_section({"moe", "Mixture of experts; null: every layer is dense."}, model.moe,
                          [&](MixtureOfExpertsRecipe& moe) { describe_experts(keys, moe, model); });
    keys.optional_section(
        {"multi_token_prediction",
         "Layers behind the last one that predict further tokens, as in DeepSeek-V3; null: none. Planned, not run."},
        model.multi_token_prediction, [&](MultiTokenPredictionRecipe& prediction) {
          keys.integer({"depth", "Further tokens that each position predicts, by as many layers."}, prediction.depth,
                       layer_range);
          keys.number({"coefficient", "Coefficient of the mean of their losses."}, prediction.coefficient,
                      {0, 1e6, RangeEnds::open_minimum});
        });
    keys.optional_section({"classifier", "A head for classes in place of the one for tokens; null: none.",
                           "of data.labels, data.images or data.spans, if there are any"},
                          model.classifier,
                          [&](ClassifierRecipe& classifier) { describe_classifier(keys, classifier); });
    keys.optional_section({"lora", "Low-rank adapters, which are trained in place of the model; null: none."},
                          model.lora, [&](LoraRecipe& lora) { describe_lora(keys, lora); });
  });
}

}  // namespace llmtrain
