// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "core/graph/graph.h"
#include "tests/core/model/small_model.h"

namespace llmtrain::test {

// What one micro-batch gives on its way through a model that is cut into stages, forward and backward.
struct StagedPasses {
  std::vector<at::Tensor> losses;  // by term of rows
  NamedTensors gradients;
  std::vector<std::size_t> sent;  // how many values cross each cut
};

// `stages`: the blocks of each. `options` are those of every stage, but for its blocks.
StagedPasses passes_through(const std::vector<std::vector<std::size_t>>& stages, const Graph& graph,
                            SmallModel::Options options, const PassInput& input);

}  // namespace llmtrain::test
