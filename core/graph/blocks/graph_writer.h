// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/adapters.h"
#include "core/graph/graph.h"

namespace llmtrain {

// Appends blocks to a Graph in the order of the data, with the values, parameters and losses that their kinds say
// (core/graph/blocks/block_kind.h).
class GraphWriter {
 public:
  explicit GraphWriter(const ModelRecipe& model);

  void add_block(std::string name, BlockSettings settings);
  // Matrices that are multiplied as one keep their precision together. Throws as Graph::build().
  Graph take(const HighPrecisionRecipe& high_precision, const std::vector<std::string>& frozen);

  // For what is of the whole model.
  const ModelRecipe& model() const { return graph_.model; }
  const Graph& graph() const { return graph_; }

  // What follows is of the block that was added last.
  Block& block() { return graph_.blocks.back(); }
  // The value that the block before makes.
  void read_value();
  // That of the name; throws Error(internal_error) where no earlier block makes one.
  void read_value(std::string_view name);
  // With the block's name and hidden size.
  void make_value();
  // The first one is called as the block, others "block.name". `rows`: whose tokens (Value::rows).
  void make_value(std::string_view name, std::vector<std::int64_t> features, std::size_t rows = 0);
  // A term of the loss, as LossTerm has it.
  void raise(std::string_view name, double coefficient, bool is_of_rows);
  // A parameter of an earlier block, under a name of this one's own.
  void share(std::string_view other_block, std::string_view parameter, std::string local_name);
  // Its parameters from here on are called as within the block: those of the model's end have been so at all times.
  void leave_out_block_name() { prefix_.clear(); }

  // One linear layer: its name within the block, and how it is split.
  struct Linear {
    std::string name;
    std::int64_t output = 0;
    std::int64_t input = 0;
    Split split{};
    Joined joined = Joined::none;
    std::int64_t experts = 0;  // 0: no axis of experts
  };

  // With its local name alone.
  void add(Parameter parameter);
  // With a row for each of `size` tokens or positions.
  void add_table(std::string name, std::int64_t size, Split split, bool decays);
  // The weight of a layer's linear layer; of the last one, what it makes is added to the residual stream.
  void add_matrix(const Linear& linear);
  void add_last_matrix(const Linear& linear);
  void add_bias(const Linear& linear);
  void add_norm(const std::string& name, const NormSettings& norm);
  // The weight of a linear layer that is no layer's matrix (Parameter::is_layer_matrix).
  Parameter weight(const Linear& linear) const;
  // Adapters of the block's matrices follow all of these, so that those which are multiplied as one stay adjacent.
  void add_adapters();

 private:
  double residual_deviation() const;

  Graph graph_;
  Adapters adapters_;
  std::string prefix_;
};

// How tensor ranks split a linear layer's weight by its outputs or its inputs, beside the axis of experts; a bias has
// outputs alone.
constexpr Split even_outputs(std::int64_t units) { return {Split::Kind::even, 0, units}; }
constexpr Split even_inputs(std::int64_t units) { return {Split::Kind::even, 1, units}; }
constexpr Split repeated_outputs(std::int64_t units) { return {Split::Kind::repeated, 0, units}; }
constexpr Split padded_rows(std::int64_t units) { return {Split::Kind::padded, 0, units}; }

}  // namespace llmtrain
