// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/graph/operators/operators.h"
#include "parallel/plan/cost/roofline.h"
#include "parallel/plan/inference/device_split.h"
#include "parallel/plan/inference/layer_shape.h"
#include "parallel/plan/inference/served_pass.h"

namespace llmtrain {

// A product with weights on one device. Of the experts the `batch` are those that any token of the pass chooses, each
// with an equal part of their rows.
struct ServedProduct {
  MatrixProduct product{};
  bool of_layer = true;     // a matrix of a layer, which is stored as the request says
  bool is_grouped = false;  // of routed experts
};

// Cached keys and values of one device.
struct CachedNumbers {
  double elements = 0;
  double rows = 0;  // in which they are: a token's key or value of one head
};

// Attention of one device to the cached keys and values.
struct ServedAttention {
  double flops = 0;
  CachedNumbers cached{};  // that it reads
  AttentionSizes sizes{};
};

// What one device runs of a block in one pass: the operators of the block's list (core/graph/operators), which training
// is priced by, as the split divides them.
struct BlockWork {
  std::vector<ServedProduct> products{};
  std::vector<ServedAttention> attention{};
  std::vector<double> moved_elements{};  // of each pass over memory
};

BlockWork block_work(const Graph& graph, std::size_t block, DataType compute, const DeviceSplit& split,
                     const ServedPass& pass);

// What of a layer one device caches for sequences of so many tokens.
CachedNumbers cached_numbers(const LayerShape& shape, const DeviceSplit& split, const ServedPass& pass);

}  // namespace llmtrain
