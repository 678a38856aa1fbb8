// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "core/model/block_module.h"

namespace llmtrain {

// How values go from block to block of a stage: each has a place among the tensors of a pass, which is empty before the
// value is made and after its last use.
class StageValues {
 public:
  using Places = std::vector<at::Tensor>;

  StageValues(const Graph& graph, std::span<const std::size_t> blocks);

  // In the forward: what arrives from the stages before, in the order of values_across() there; what the block of this
  // position in the stage reads, which leaves its place where neither a later block nor a later stage reads it; what
  // the block makes; and what the stages behind are sent.
  Places arrive(Tensors incoming) const;
  Tensors inputs(std::size_t block, Places& values) const;
  void add_outputs(std::size_t block, Tensors outputs, Places& values) const;
  Tensors leave(Places& values) const;

  // In the backward the same of the values' gradients, from the last block to the first. The gradient of a value with
  // several readers is the sum of what these return, from the last reader to the first, whatever stages they are on.
  Places arrive_behind(Tensors gradients) const;
  Tensors output_gradients(std::size_t block, Places& gradients) const;
  void add_input_gradients(std::size_t block, Tensors of_inputs, Places& gradients) const;
  Tensors leave_before(Places& gradients) const;

 private:
  struct Input {
    std::size_t place = 0;
    bool is_last_use = false;
  };
  struct OfBlock {
    std::vector<Input> inputs;
    std::vector<std::size_t> outputs;
  };

  std::size_t places_ = 0;
  std::vector<std::size_t> incoming_, outgoing_;
  std::vector<OfBlock> blocks_;
};

}  // namespace llmtrain
