// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "kernels/rope.h"

namespace llmtrain {

// The angles of a model's rotary positions on one device, of layers with the same settings one table.
class RopeTables {
 public:
  RopeTables(const Graph& graph, const at::Device& device);
  RopeTables(const RopeTables&) = delete;
  RopeTables& operator=(const RopeTables&) = delete;

  // At the same address for good. Throws std::out_of_range where no layer of the graph has these.
  const kernels::RopeTable& of(const RopeSettings& rope) const;

 private:
  std::vector<std::pair<RopeSettings, kernels::RopeTable>> tables_;
};

}  // namespace llmtrain
