// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/data/samples/dataset.h"
#include "core/model/pass/pass_context.h"
#include "core/recipe/recipe.h"
#include "core/recipe/step_shapes.h"
#include "kernels/sequence_part.h"
#include "parallel/device/transfers.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// A rank's position among those that share the samples of a batch, and its part of each sequence.
struct DataRank {
  std::int64_t position = 0;
  std::int64_t ranks = 1;
  std::int64_t sequence_length = 0;
  kernels::SequencePart part{};
};
DataRank data_rank(const RankGroups& groups, std::int64_t sequence_length);

// Micro-batches of the host whose tensors lie in pinned memory, to go to a GPU in one copy. Any thread may make one.
class PackedBatch {
 public:
  explicit PackedBatch(std::vector<PassInput> micros);
  // As PackedTensors::send() does it; once.
  std::vector<PassInput> send(const at::Device& device);

 private:
  std::vector<PassInput> micros_;
  PackedTensors tensors_;
};

// This rank's rows of `count` samples of the data set's order, starting with number `first`, on `device`.
// `easiest_percent`: see Dataset::read(). Nobody waits for a GPU.
Batch load_samples(const Dataset& dataset, const DataRank& rank, std::int64_t first, std::int64_t count,
                   const at::Device& device, std::int64_t easiest_percent = 100);

// A step's number (from 0), how many samples of the data set's order earlier steps consumed, what it makes of those of
// a micro-batch, and which percent of the samples, the easiest, it reads.
struct BatchPlace {
  std::int64_t step = 0;
  std::int64_t first_sample = 0;
  StepShape shape{};
  std::int64_t easiest_percent = 100;

  bool operator==(const BatchPlace&) const = default;
};

// This rank's part of a step's global batch, split into micro-batches. The batch is the next batch.global samples of
// the data set's order, independent of the layout; each rank takes an equal, contiguous part of it. The passes are of
// training, without fp16's loss scale and without recorders.
// `rank` is that of sequences of the shape's length. Nobody waits for a GPU.
std::vector<PassInput> load_batch(const Dataset& dataset, const Recipe& recipe, const BatchPlace& place,
                                  const DataRank& rank, const at::Device& device);

}  // namespace llmtrain
