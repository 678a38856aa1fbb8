// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain {

// The recipe's section `model`, as core/recipe/recipe.h describes recipes.

enum class Architecture { gpt2, gpt_rope, llama, bert, roberta, bart, t5, vit, resnet };
// Formulas: kernels/activation.h.
enum class Activation { gelu, gelu_tanh, relu, squared_relu, swiglu, geglu, geglu_tanh, clamped_swiglu };
// Whether attention and the feed-forward network read the same input, through norms of their own or through one.
enum class ParallelResidual { none, two_norms, one_norm };
// groupnorm: of groups of an image's channels, in residual networks.
enum class NormKind { layernorm, rmsnorm, groupnorm };
// relative: a learned bias of scores by how far a key lies from its query (Raffel et al., arXiv 1910.10683).
enum class Position { learned, rope, relative, none };
// Rules by which linear attention updates the states of its heads.
enum class LinearAttentionKind { gated_delta, mamba2 };
enum class Router { linear, cosine };
enum class ScoreFunction { softmax, sigmoid };
enum class RouterPriority { position, score };
enum class BalanceLoss { gshard, load_importance, none };

// Whether a second product makes a gate.
constexpr bool is_gated(Activation activation) {
  return activation != Activation::gelu && activation != Activation::gelu_tanh && activation != Activation::relu &&
         activation != Activation::squared_relu;
}

struct MixtureOfExpertsRecipe {
  std::int64_t experts = 0;
  std::int64_t top_k = 1;
  std::int64_t every = 1;
  std::int64_t dense_layers = 0;
  double capacity_factor = 1.0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t shared_experts = 0;
  bool shared_gate = false;
  Router router = Router::linear;
  bool router_bias = false;
  ScoreFunction score_function = ScoreFunction::softmax;
  // Whether experts are chosen by scores to which a bias is added, which moves with their load after every step (Wang
  // et al., arXiv 2408.15664).
  bool selection_bias = false;
  // Experts are chosen from the best so many groups of them, in which they follow each other.
  std::int64_t groups = 1;
  std::int64_t top_groups = 1;   // groups
  bool normalize_gates = false;  // top_k > 1
  double gate_scale = 1;
  RouterPriority priority = RouterPriority::position;
  BalanceLoss balance_loss = BalanceLoss::gshard;
  double balance_coefficient = 0.01;
  double z_coefficient = 0;
  double jitter = 0;
  double gate_noise = 0;  // 1 with the load-importance loss
  // What tokens follow instead of their router's choices.
  std::optional<double> routing_zipf{};
  std::optional<std::string> routing_trace{};  // a file

  // Whether the model's layer of that number, from 0, has experts.
  bool are_in(std::int64_t layer) const { return layer >= dense_layers && (layer + 1) % every == 0; }
  // Whether tokens go elsewhere than their router says.
  bool replays() const { return routing_zipf || routing_trace; }
  // Whether routers learn to send experts equally many tokens.
  bool balances() const { return balance_loss != BalanceLoss::none && balance_coefficient > 0; }

  bool operator==(const MixtureOfExpertsRecipe&) const = default;
};

// Whether it is an encoder: each token sees all of its document, and hidden tokens are predicted instead of the next.
constexpr bool is_encoder(Architecture architecture) {
  return architecture == Architecture::bert || architecture == Architecture::roberta;
}

// Whether an encoder reads a source, and a decoder that attends to it writes a target.
constexpr bool is_encoder_decoder(Architecture architecture) {
  return architecture == Architecture::bart || architecture == Architecture::t5;
}

// Whether it reads images instead of tokens, and tells their classes.
constexpr bool is_image_classifier(Architecture architecture) {
  return architecture == Architecture::vit || architecture == Architecture::resnet;
}

// Whether its blocks are bodies (core/body), which are computed whole on each rank.
constexpr bool has_bodies(Architecture architecture) {
  return is_encoder(architecture) || is_encoder_decoder(architecture) || is_image_classifier(architecture);
}

enum class RopeScalingType { linear, llama3, yarn };

// How rotary positions reach beyond the length that a model was first trained with (core/graph/rope_frequencies.h).
struct RopeScalingRecipe {
  RopeScalingType type = RopeScalingType::linear;
  double factor = 1;
  std::int64_t original_max_sequence_length = 0;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  double beta_fast = 32;
  double beta_slow = 1;
  double attention_factor = 1;
  bool truncate = true;

  bool operator==(const RopeScalingRecipe&) const = default;
};

// In which numbers the frozen matrices beneath adapters are kept: in the compute type, or as QLoRA's NormalFloat of 4
// bits (Dettmers et al., arXiv 2305.14314).
enum class LoraBase { compute, nf4 };

// Low-rank adapters (Hu et al., arXiv 2106.09685): a matrix W of those that a pattern names becomes W + scale() · B·A,
// of which A and B alone are trained.
struct LoraRecipe {
  std::int64_t rank = 8;
  double alpha = 8;
  std::vector<std::string> targets{"*.attention.query.weight", "*.attention.value.weight"};

  bool rank_stabilized = false;
  double dropout = 0;                          // of each adapter's input, in training
  bool dora = false;                           // also with a magnitude of each row (Liu et al., arXiv 2402.09353)
  std::vector<std::string> modules_to_save{};  // trained as a whole beside adapters
  LoraBase base = LoraBase::compute;
  bool double_quantization = true;  // with nf4: the blocks' scales are quantized, too

  // Bytes of an element of a matrix in 4 bits (section 3): a scale for each 64 elements, in fp32 or, quantized, in 8
  // bits with one in fp32 for each 256 of them.
  double nf4_bytes() const {
    constexpr double block = 64, scales = 256;
    return 0.5 + (double_quantization ? (1 + 4 / scales) / block : 4 / block);
  }

  // With rank-stabilized adapters (Kalajdzievski, arXiv 2312.03732) alpha ÷ √rank, so that higher ranks learn as fast.
  double scale() const {
    const auto columns = static_cast<double>(rank);
    return alpha / (rank_stabilized ? std::sqrt(columns) : columns);
  }

  bool operator==(const LoraRecipe&) const = default;
};

// Multi-head latent attention (DeepSeek-AI, arXiv 2405.04434, section 2.1): queries, and keys with values, pass through
// narrow projections. Of each query and key a part has no position; the rotated part of the keys is the same for all
// heads.
struct LatentAttentionRecipe {
  std::int64_t query_rank = 0;  // 0: queries are projected at once
  std::int64_t key_value_rank = 0;
  std::int64_t nope_head_dim = 0;
  std::int64_t rope_head_dim = 0;
  std::int64_t value_head_dim = 0;

  std::int64_t head_dim() const { return nope_head_dim + rope_head_dim; }

  bool operator==(const LatentAttentionRecipe&) const = default;
};

// Linear attention: each head carries a state of key_head_dim × value_head_dim numbers from token to token, by the
// gated delta rule (Yang et al., arXiv 2412.06464) or as Mamba-2, whose B and C are keys and queries of groups of heads
// (Dao and Gu, arXiv 2405.21060, section 5). Tokens are computed in chunks.
struct LinearAttentionRecipe {
  LinearAttentionKind kind = LinearAttentionKind::gated_delta;
  std::int64_t key_heads = 0;  // of queries, too; Mamba-2's groups
  std::int64_t value_heads = 0;
  std::int64_t key_head_dim = 0;    // Mamba-2's state size
  std::int64_t value_head_dim = 0;  // Mamba-2's head size
  std::int64_t convolution = 4;     // tokens that the convolution before it sees
  bool convolution_bias = false;    // mamba2 true
  std::int64_t chunk = 64;          // tokens; mamba2 256

  std::int64_t key_features() const { return key_heads * key_head_dim; }
  std::int64_t value_features() const { return value_heads * value_head_dim; }

  bool operator==(const LinearAttentionRecipe&) const = default;
};

// What a layer consists of: what mixes tokens, a feed-forward network, or both.
struct LayerKind {
  bool has_mixer = true;
  bool is_linear = false;  // its mixer is linear attention
  bool has_feed_forward = true;
};

// In the order of layer_kind_words.
inline constexpr std::array<LayerKind, 5> layer_kinds_in_order{{{},
                                                                {.is_linear = true},
                                                                {.has_feed_forward = false},
                                                                {.is_linear = true, .has_feed_forward = false},
                                                                {.has_mixer = false}}};
inline constexpr std::array<std::string_view, 5> layer_kind_words{"attention", "linear", "attention_alone",
                                                                  "linear_alone", "feed_forward_alone"};

// Local attention (Beltagy et al., arXiv 2004.05150): queries of most layers see the latest tokens alone.
struct SlidingWindowRecipe {
  std::int64_t tokens = 0;        // that a query sees, its own included
  std::int64_t global_every = 0;  // 0: all layers are local
  // The local layers' own.
  double rope_theta = 10000;  // model.rope_theta
  bool rope_scaling = true;

  // Whether queries of the model's layer of that number, from 0, see the latest tokens alone.
  bool is_local(std::int64_t layer) const { return global_every == 0 || (layer + 1) % global_every != 0; }

  bool operator==(const SlidingWindowRecipe&) const = default;
};

// Multi-token prediction (DeepSeek-AI, arXiv 2412.19437, section 2.2): behind the model's last layer follow `depth`
// more, of which the k-th predicts the token k further than the next one, from what the one before it makes and the
// embedding of the token before. All share the model's embedding and head.
struct MultiTokenPredictionRecipe {
  std::int64_t depth = 1;
  double coefficient = 0.3;  // of the mean of their losses

  bool operator==(const MultiTokenPredictionRecipe&) const = default;
};

// What a head for classes tells the class of: each sample, or each of its tokens. Of a span each class, "start" and
// "end", is that of one token of a sample.
enum class ClassifiedPart { sequence, token, span };

// A head for classes in place of the one for tokens.
struct ClassifierRecipe {
  ClassifiedPart of = ClassifiedPart::sequence;
  std::vector<std::string> classes{};  // their names, in the order of the logits

  bool operator==(const ClassifierRecipe&) const = default;
};

// Those of a span.
inline std::vector<std::string> span_classes() { return {"start", "end"}; }

// The images that a model reads, which are square, and the square patches into which it cuts them.
struct ImageInputRecipe {
  std::int64_t size = 224;  // pixels of a side
  std::int64_t patch = 16;  // pixels of a side; of a residual network, which cuts nothing, size
  std::int64_t channels = 3;

  bool operator==(const ImageInputRecipe&) const = default;
};

// Two convolutions of 3×3; or one between two of 1×1, of which the first has a quarter of the channels.
enum class ResidualBlock { basic, bottleneck };

// A residual network (He et al., arXiv 1512.03385) with group norms (Wu and He, arXiv 1803.08494): a stem that halves
// height and width twice, and stages of blocks, each but the first of which halves them again.
struct ResnetRecipe {
  struct Stage {
    std::int64_t blocks = 2;
    std::int64_t channels = 64;  // that its blocks make

    bool operator==(const Stage&) const = default;
  };
  ResidualBlock block = ResidualBlock::basic;
  std::int64_t stem_channels = 64;
  std::int64_t groups = 32;  // of channels, in each norm
  std::vector<Stage> stages{};

  // How many all stages have.
  std::int64_t blocks() const;
  // That the last stage makes; 1 where there is none.
  std::int64_t channels() const { return stages.empty() ? 1 : stages.back().channels; }

  bool operator==(const ResnetRecipe&) const = default;
};

inline std::int64_t ResnetRecipe::blocks() const {
  std::int64_t sum = 0;
  for (const Stage& stage : stages) sum += stage.blocks;
  return sum;
}

struct ModelRecipe {
  Architecture architecture = Architecture::gpt2;
  std::int64_t layers = 0;          // of an encoder-decoder the encoder's
  std::int64_t decoder_layers = 0;  // of an encoder-decoder
  std::int64_t hidden_size = 0;
  std::int64_t heads = 0;
  std::optional<LatentAttentionRecipe> latent_attention;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn_hidden_size = 0;
  std::optional<ImageInputRecipe> image;  // none: it reads tokens
  std::optional<ResnetRecipe> resnet;     // where that is the architecture
  std::int64_t vocab_size = 0;            // 1 with images
  std::int64_t max_sequence_length = 0;
  Activation activation = Activation::gelu_tanh;
  NormKind norm = NormKind::layernorm;
  double norm_eps = 1e-5;
  Position position = Position::learned;
  double rope_theta = 10000;
  std::optional<RopeScalingRecipe> rope_scaling;
  std::optional<SlidingWindowRecipe> sliding_window;
  std::optional<double> attention_scale;  // of products of queries and keys; none: 1 ÷ √head_dim
  bool attention_sinks = false;
  bool attention_gate = false;               // of what heads make, by a sigmoid of a projection of the layer's input
  std::optional<std::int64_t> rotary_dim{};  // elements of each head that are rotated; none: all
  ParallelResidual parallel_residual = ParallelResidual::none;
  bool post_norms = false;
  double embedding_scale = 1;
  std::optional<LinearAttentionRecipe> linear_attention;
  std::vector<std::string> layer_kinds;  // layer_kind_words, repeated over the layers; empty: "attention"
  bool bias = true;                      // every linear but attention's; layernorm's shift too
  bool qkv_bias = true;                  // query, key and value
  bool attention_output_bias = true;     // of what attention's heads make together
  bool qk_norm = false;
  bool tie_embeddings = true;
  double dropout = 0;
  double init_std = 0.02;
  std::optional<MixtureOfExpertsRecipe> moe;
  std::optional<MultiTokenPredictionRecipe> multi_token_prediction;
  std::optional<ClassifierRecipe> classifier;  // none: tokens are predicted
  std::optional<LoraRecipe> lora;

  // What the model's layer of that number, from 0, consists of; those behind the last one, which predict further
  // tokens, are usual ones. A word that is none of layer_kind_words counts as the usual one.
  LayerKind kind_of(std::int64_t layer) const;

  // Rows of `image`, which is one: one for each patch, behind one for itself; a residual network has it as one row.
  std::int64_t image_rows() const;

  // In all linear layers, or in none.
  void set_biases(bool there) { bias = qkv_bias = attention_output_bias = there; }

  bool operator==(const ModelRecipe&) const = default;
};

inline std::int64_t ModelRecipe::image_rows() const {
  const ImageInputRecipe& read = image.value();
  return resnet ? 1 : 1 + (read.size / read.patch) * (read.size / read.patch);
}

inline LayerKind ModelRecipe::kind_of(std::int64_t layer) const {
  if (layer_kinds.empty() || layer >= layers) return {};
  const std::string& word = layer_kinds[static_cast<std::size_t>(layer) % layer_kinds.size()];
  const auto found = std::ranges::find(layer_kind_words, word);
  return found == layer_kind_words.end() ? LayerKind() : layer_kinds_in_order[found - layer_kind_words.begin()];
}

}  // namespace llmtrain
