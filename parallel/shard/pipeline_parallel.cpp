// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/pipeline_parallel.h"

#include <vector>

#include "parallel/shard/tensor_array.h"

namespace llmtrain {

PipelineParallel::PipelineParallel(Communicator& communicator, const Layout& layout) : communicator_(&communicator) {
  const std::vector<int> ranks = group_members(layout.mesh(), GroupKind::pipeline, communicator.rank());
  // Messages of a group are matched in order, and the two directions interleave differently on sender and receiver:
  // each needs a group of its own.
  activations_ = communicator.make_group("pipeline activations", ranks, GroupUse::messages);
  gradients_ = communicator.make_group("pipeline gradients", ranks, GroupUse::messages);
  // Collective over its members only, so the ranks in between do not call it.
  if (ranks.size() > 1 && is_end()) ends_ = communicator.make_group("pipeline ends", {ranks.front(), ranks.back()});
}

Handle PipelineParallel::send(Channel channel, const at::Tensor& tensor, int position) const {
  return communicator_->send(group(channel), Purpose::pipeline, array_of(tensor), position);
}

Handle PipelineParallel::receive(Channel channel, const at::Tensor& tensor, int position) const {
  return communicator_->receive(group(channel), Purpose::pipeline, array_of(tensor), position);
}

Handle PipelineParallel::sum_ends(const at::Tensor& tensor) const {
  return communicator_->all_reduce(ends_, Purpose::pipeline, array_of(tensor));
}

}  // namespace llmtrain
