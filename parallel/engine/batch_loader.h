// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/data/dataset.h"
#include "core/model/micro_batch.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Consecutive positions of a data set's order.
struct SampleRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t sequence_length = 0;
};

// Tokens and targets of these samples, on `device`; the fields about the run are left as they are by default.
MicroBatch load_micro_batch(const Dataset& dataset, const SampleRange& samples, const at::Device& device);

// The global batch of a step (from 0), cut into micro-batches. The batch of step k is samples k·global … of the data
// set's order, whatever the layout.
std::vector<MicroBatch> load_batch(const Dataset& dataset, const Recipe& recipe, std::int64_t step,
                                   const at::Device& device);

}  // namespace llmtrain
