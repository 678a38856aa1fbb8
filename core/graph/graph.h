// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/element_type.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The symbolic model: its parts in the order of the data flow, before any tensor exists. Links no LibTorch. Modules,
// optimizer, checkpoints and the planner take names, shapes, sharding axes, FLOPs and bytes from here, so that each is
// defined once.

enum class Initialization { normal, ones, zeros };

// How tensor parallelism splits a parameter: not at all, by output features (rows, the first axis after the experts')
// or by input features (columns, the last axis).
enum class ShardAxis { none, output, input };

// The purpose of a parameter: modules find their parameters by role, so that names are written only here.
enum class ParameterRole {
  token_embedding,
  position_embedding,
  attention_norm_weight,
  attention_norm_bias,
  query_weight,
  key_weight,
  value_weight,
  query_bias,
  key_bias,
  value_bias,
  query_norm_weight,
  key_norm_weight,
  attention_output_weight,
  attention_output_bias,
  ffn_norm_weight,
  ffn_norm_bias,
  ffn_gate_weight,
  ffn_gate_bias,
  ffn_up_weight,
  ffn_up_bias,
  ffn_down_weight,
  ffn_down_bias,
  router_weight,
  router_projection_weight,
  router_temperature,
  shared_gate_weight,
  expert_gate_weight,
  expert_gate_bias,
  expert_up_weight,
  expert_up_bias,
  expert_down_weight,
  expert_down_bias,
  adapter_input,   // A of a low-rank adapter, [rank, input]
  adapter_output,  // B, [output, rank]
  final_norm_weight,
  final_norm_bias,
  head_weight,
};

// Parameters whose gradients come from one matrix product are adjacent, so that flat storage makes them one matrix:
// query, key, value weights; their biases; for swiglu gate and up weights; their biases.
//
// A layer with a mixture of experts has, in place of the feed-forward network: router_weight [experts, hidden] (cosine:
// router_projection_weight [256, hidden], router_weight [experts, 256], and a temperature τ [1] that starts at 0 and
// scales the cosines by 2·exp(τ), at most 100; Chi et al., arXiv 2204.09179); with `shared_experts` one dense
// feed-forward network as wide as all of them, in the roles ffn_*, which computes the same as several in parallel, and
// with `shared_gate` shared_gate_weight [1, hidden]; and the routed experts of a layer, one parameter per matrix for
// all of them, as grouped products need.
struct Parameter {
  std::string name;  // "layers.3.attention.query.weight": the logical name everywhere
  ParameterRole role{};
  std::vector<std::int64_t> shape;  // linear weights are [output, input], of experts [experts, output, input]
  // The first axis counts routed experts: it is divided among `parallel.expert` ranks, and `shard_axis` is split over
  // `parallel.expert_tensor` ranks instead of `parallel.tensor`.
  bool has_expert_axis = false;
  ShardAxis shard_axis = ShardAxis::none;
  Initialization initialization = Initialization::normal;
  double standard_deviation = 0;  // of `normal`
  bool decays = false;            // weight matrices and embeddings, not biases, norms, learned positions
  // The weight matrix of a linear layer within a transformer layer, with an expert axis one matrix per expert: what FP8
  // levels store in FP8 (Peng et al., arXiv 2310.18313), what Muon trains (training.optimizer.name) and what may have
  // adapters, unless it is of experts. Embeddings, the head, routers, biases and norms are no such matrices.
  bool is_layer_matrix = false;
  bool is_high_precision = false;  // of these: the recipe keeps it in the compute type
  bool is_frozen = false;          // never trained: has no gradient and no optimizer states
  // Of an adapter's parameter: the role of the matrix of its block that it adds to.
  std::optional<ParameterRole> adapts{};

  // Whether FP8 levels multiply and store it in FP8.
  bool takes_fp8() const { return is_layer_matrix && !is_high_precision; }

  std::int64_t elements() const { return element_count(shape); }
};

enum class BlockKind { embedding, layer, head };

// The unit of which stages consist: the embedding, one transformer layer, or the final norm with the head.
struct Block {
  BlockKind kind{};
  std::int64_t layer = -1;              // index of a transformer layer
  std::vector<std::size_t> parameters;  // indices into Graph::parameters, each parameter in exactly one block
  bool drops_tokens = false;  // a layer that may see a part of each sequence alone (core/graph/token_dropping.h)
  // The first block of the same kind with parameters of the same roles and shapes, and the same load of experts.
  std::size_t alike = 0;
};

// Width of the space in which the cosine router compares a token with the experts (Chi et al., arXiv 2204.09179).
constexpr std::int64_t cosine_router_width = 256;

// Whether transformer layer `layer` (from 0) has a mixture of experts: the last of every `model.moe.every` layers.
bool has_experts(const ModelRecipe& model, std::int64_t layer);
// How many layers have one.
std::int64_t expert_layers(const ModelRecipe& model);

class ReplayedRouting;

struct Graph {
  ModelRecipe model;
  std::vector<Parameter> parameters;  // in the order of the blocks
  std::vector<Block> blocks;          // embedding, layers, head
  // Where tokens go whatever the routers say; null: where these say.
  std::shared_ptr<const ReplayedRouting> routing{};

  // `model` is resolved and valid (core/recipe). Matrices that are multiplied as one keep their precision together:
  // all do where a pattern names one of them. Throws Error(bad_recipe) where a pattern matches no layer's matrix, and
  // as freeze() (core/graph/parameter_marks.h). Beside adapters all other parameters are frozen.
  static Graph build(const ModelRecipe& model, const HighPrecisionRecipe& high_precision = {},
                     const std::vector<std::string>& frozen = {});
  // The same with the routing that the model replays, if it does. Reads the trace; throws Error as ReplayedRouting().
  static Graph build_with_routing(const ModelRecipe& model, const HighPrecisionRecipe& high_precision = {},
                                  const std::vector<std::string>& frozen = {});

  std::int64_t parameter_count() const;
  // Those that are not frozen.
  std::int64_t trained_parameter_count() const;
  // Parameters that one token uses: all but the routed experts that it is not sent to.
  std::int64_t active_parameter_count() const;
  // Parameters that grow with the vocabulary or the positions: both embeddings and an untied head. The rest is what
  // scaling laws and model cards call non-embedding parameters (Kaplan et al., arXiv 2001.08361).
  std::int64_t embedding_parameter_count() const;
  // Throws std::out_of_range when the block has no parameter of that role.
  const Parameter& parameter(std::size_t block, ParameterRole role) const;
  bool has_parameter(std::size_t block, ParameterRole role) const;
  // The block's parameter of an adapter, of that role, to the matrix of role `adapted`; null where that has none.
  const Parameter* adapter(std::size_t block, ParameterRole role, ParameterRole adapted) const;
  // Of a parameter of this graph.
  std::size_t index_of(const Parameter& parameter) const {
    return static_cast<std::size_t>(&parameter - parameters.data());
  }
  // [vocab_size, hidden_size]: the weight that produces logits, head.weight or with tied embeddings the token
  // embedding.
  const Parameter& logits_weight() const;
  // The only block of a kind that occurs once in a model: the embedding or the head.
  std::size_t block_of(BlockKind kind) const;
  // Model FLOPs of one training step per token: matrix products and attention, forward and backward, without recompute.
  // For GPT-2 shapes 72·l·h²(1 + s/6h + V/12lh) (Narayanan et al., arXiv 2104.04473, without its recompute). Without
  // the products that make gradients of frozen weights. `kept_tokens`: of each sequence in layers that drop tokens; 0:
  // all.
  double training_flops_per_token(std::int64_t sequence_length, std::int64_t kept_tokens = 0) const;
};

// One value for all identical blocks of a Graph (Block::alike): a model of a hundred layers is evaluated as fast as one
// of two. The graph outlives this.
template <class Value>
class BlockCache {
 public:
  explicit BlockCache(const Graph& graph) : graph_(graph), values_(graph.blocks.size()) {}

  // `make` is called for the first of the identical blocks.
  template <class Make>
  const Value& of(std::size_t block, Make make) {
    std::optional<Value>& value = values_[graph_.blocks[block].alike];
    if (!value) value.emplace(make());
    return *value;
  }

 private:
  const Graph& graph_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace llmtrain
