// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/block_settings.h"
#include "core/graph/loss_term.h"
#include "core/graph/parameter.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The symbolic model: its parts in the order of the data flow, before any tensor exists. Links no LibTorch. Modules,
// optimizer, checkpoints and the planner take names, shapes, sharding axes, FLOPs and bytes from here, so that each is
// defined once.

// A tensor of activations that one block makes and later ones read: a row of features of each token.
struct Value {
  std::string name;
  std::size_t rows = 0;  // whose tokens: the axis of token rows, an index into Batch::rows
  std::vector<std::int64_t> features;
};

// The unit of which stages consist, such as an embedding, a transformer layer, or a norm with the head.
struct Block {
  std::string name;  // "layers.3": its own in the graph, of dropout's sites and in messages
  BlockSettings settings;
  std::vector<std::size_t> parameters{};  // indices into Graph::parameters, each parameter in exactly one block
  // A parameter of an earlier block that this one reads, too, and the name by which it finds it.
  struct Shared {
    std::string local_name;
    std::size_t parameter = 0;
  };
  std::vector<Shared> shared{};
  // Indices into Graph::values, in the order in which the module takes and gives them. A head's losses and logits are
  // the model's result, and no values.
  std::vector<std::size_t> inputs{}, outputs{};
  std::vector<std::size_t> losses{};  // indices into Graph::losses of the terms that it raises
  bool lends = false;                 // whether another block reads one of its parameters
  bool is_unit = false;  // one of the blocks in equal numbers of which stages are measured (pipeline.balance "layers")
  // False before the first block with parameters that are trained: nobody asks for gradients there, and nothing is kept
  // for a backward.
  bool has_backward = true;
  // What its backward computes again, where a recipe lists layers; none: what the setting of a pass says.
  std::optional<Recompute> recompute{};
  // The first block with the same settings, parameters and values but for their names in the model, the same load of
  // experts, and the same marks of a recipe.
  std::size_t alike = 0;

  // As its settings say.
  std::int64_t hidden_size() const;
  bool reads_in_backward() const;
  bool runs_again() const;
  // Null where it is no transformer layer, or has none.
  const LayerSettings* layer() const { return std::get_if<LayerSettings>(&settings); }
  const MixtureOfExpertsRecipe* experts() const;
};

// Width of the space in which the cosine router compares a token with the experts (Chi et al., arXiv 2204.09179).
constexpr std::int64_t cosine_router_width = 256;

// Whether transformer layer `layer` (from 0) has a mixture of experts: the last of every `model.moe.every` layers, but
// none of the first `model.moe.dense_layers` and none without a feed-forward network.
bool has_experts(const ModelRecipe& model, std::int64_t layer);

class ReplayedRouting;

struct Graph {
  ModelRecipe model;                  // of which it was built: for what is of the whole model
  std::vector<Parameter> parameters;  // in the order of the blocks
  std::vector<Block> blocks;          // in the order of the data
  std::vector<Value> values;          // in the order of the blocks that make them
  std::vector<LossTerm> losses{};     // those of rows come first; appended by raise()
  // Where tokens go whatever the routers say; null: where these say.
  std::shared_ptr<const ReplayedRouting> routing{};

  // `model` is resolved and valid (core/recipe). Matrices that are multiplied as one keep their precision together:
  // all do where a pattern names one of them. Throws Error(bad_recipe) where a pattern matches no layer's matrix, and
  // as freeze() (core/graph/marks/parameter_marks.h). Beside adapters all other parameters are frozen.
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
  // By the name within the block, also of what it shares. Throws std::out_of_range, with the names that there are,
  // where it has none of this.
  const Parameter& parameter(std::size_t block, std::string_view local_name) const;
  // Null where it has none.
  const Parameter* find_parameter(std::size_t block, std::string_view local_name) const;
  bool has_parameter(std::size_t block, std::string_view local_name) const {
    return find_parameter(block, local_name) != nullptr;
  }
  // The index of the last of the parameters that are multiplied as one with the parameter of index `first` and follow
  // it: itself where it is multiplied alone.
  std::size_t last_of_product(std::size_t first) const;
  // The parameter must be one of this graph.
  std::size_t index_of(const Parameter& parameter) const {
    return static_cast<std::size_t>(&parameter - parameters.data());
  }
  // Lets a block read a parameter of an earlier one, which has no adapter, under a name of its own. Parameters that are
  // multiplied as one are shared together.
  void share(std::size_t parameter, std::size_t block, std::string local_name);
  // Lets a block raise a term, whose name no other term of rows has.
  void raise(LossTerm term);
  // The terms of rows, whose indices are those in `losses`.
  std::span<const LossTerm> row_losses() const;
  // The coefficient of the block's term of this name; 0 where it raises none.
  double loss_coefficient(std::size_t block, std::string_view name) const;
  // The index of the block of that name. Throws std::out_of_range where there is none.
  std::size_t block_named(std::string_view name) const;
  // The index of the first block that has a backward.
  std::size_t first_with_backward() const;
  // How many blocks are units.
  std::int64_t units() const;
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
