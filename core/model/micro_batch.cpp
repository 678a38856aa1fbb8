// SPDX-License-Identifier: Apache-2.0
#include "core/model/micro_batch.h"

namespace llmtrain {

kernels::Dropout dropout_at(const MicroBatch& micro, double probability, std::uint64_t site,
                            std::int64_t elements_per_sample) {
  // The key depends on the step but not on the micro-batch: the sample's index in the global batch tells micro-batches
  // apart, however the batch is split.
  return {probability, kernels::dropout_key(micro.seed, micro.step, site), micro.first_sample * elements_per_sample};
}

void drop_rows_(at::Tensor& x, const MicroBatch& micro, double probability, std::uint64_t site,
                std::int64_t first_row) {
  // Of whole sequences, also where this rank has a part of them: indices are those of the unsharded tensor.
  const std::int64_t elements_per_sample = micro.part.whole_of(micro.sequence) * x.size(1);
  kernels::dropout_rows_(x, dropout_at(micro, probability, site, elements_per_sample),
                         {micro.part, micro.sequence, first_row});
}

}  // namespace llmtrain
