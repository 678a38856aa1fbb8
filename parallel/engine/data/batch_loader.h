// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/samples/sample_source.h"
#include "core/data/samples/step_samples.h"
#include "core/graph/block_fields.h"
#include "core/graph/loss_term.h"
#include "core/model/pass/pass_context.h"
#include "core/recipe/recipe.h"
#include "kernels/sequence_part.h"
#include "parallel/device/transfers.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// A rank's position among those that share the samples of a batch, and what it has of each.
struct DataRank {
  std::int64_t position = 0;
  std::int64_t ranks = 1;
  kernels::SequencePart part{};
  FieldSet fields = all_fields;  // that blocks of this rank read
};
// What this rank reads where sequences are so long.
DataRank data_rank(const RankGroups& groups, std::int64_t sequence_length, const FieldSet& fields);

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

// This rank's fields and rows of `count` samples, starting with number `first`, on `device`. Nobody waits for a GPU.
Batch load_samples(const SampleSource& samples, const DataRank& rank, std::int64_t first, std::int64_t count,
                   const at::Device& device);

// This rank's part of a step's global batch, split into micro-batches: `samples` are those of the step, which do not
// depend on the layout; each rank takes an equal, contiguous part of them. The passes are of training, for the model's
// terms of rows, without fp16's loss scale and without recorders. `rank` is that of sequences of the shape's length.
// Nobody waits for a GPU.
std::vector<PassInput> load_batch(const SampleSource& samples, std::span<const LossTerm> terms, const Recipe& recipe,
                                  const BatchPlace& place, const DataRank& rank, const at::Device& device);

}  // namespace llmtrain
