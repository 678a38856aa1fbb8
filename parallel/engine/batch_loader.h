// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/data/dataset.h"
#include "core/model/micro_batch.h"
#include "core/recipe/recipe.h"
#include "kernels/sequence_part.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// Consecutive positions of a data set's order, and of each sequence the tokens that are loaded.
struct SampleRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t sequence_length = 0;
  kernels::SequencePart part{};
};

// Tokens and targets of these samples, on `device`; the fields about the run are left as they are by default.
MicroBatch load_micro_batch(const Dataset& dataset, const SampleRange& samples, const at::Device& device);

// One of the ranks that share the samples of a batch, and what it has of each.
struct DataRank {
  std::int64_t position = 0;
  std::int64_t ranks = 1;
  kernels::SequencePart part{};
};
DataRank data_rank(const RankGroups& groups, std::int64_t sequence_length);

// A step's number (from 0), and how many samples the steps before it took of the data set's order.
struct BatchPlace {
  std::int64_t step = 0;
  std::int64_t first_sample = 0;
};

// This rank's part of the global batch of a step, cut into micro-batches. The batch is the next batch.global samples of
// the data set's order, whatever the layout; each rank takes as many, next to each other.
std::vector<MicroBatch> load_batch(const Dataset& dataset, const Recipe& recipe, const BatchPlace& place,
                                   const DataRank& rank, const at::Device& device);

}  // namespace llmtrain
