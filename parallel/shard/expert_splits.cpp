// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/expert_splits.h"

namespace llmtrain {

ExpertSplits::ExpertSplits(Communicator& communicator, const Partition& partition) {
  const int rank = communicator.rank();
  // All groups are made at the start, so that no step that tries another split has to make one, which is collective and
  // blocks.
  for (const std::int64_t ranks : expert_splits(partition.mesh)) {
    const Mesh split = partition.split_by(ranks).mesh, products = mesh_in_use(split);
    const Group features =
        communicator.make_group("expert tensor", group_members(products, GroupKind::expert_tensor, rank));
    const Group gathering =
        communicator.make_group("expert slices", group_members(products, GroupKind::expert_shard, rank));
    splits_.push_back(
        {split, RowParallel(communicator, features, Purpose::tensor_parallel), gathering, stored_parts(split, rank)});
  }
}

void ExpertSplits::use(std::int64_t ranks) {
  current_ = 0;
  while (splits_.at(current_).mesh.expert_tensor != ranks) ++current_;
}

at::Tensor ExpertSplits::gather_rows(const at::Tensor& part) const {
  return ranks() > 1 ? features().gather_rows(part) : part;
}

at::Tensor ExpertSplits::scatter_sum_rows(const at::Tensor& whole) const {
  return ranks() > 1 ? features().scatter_sum_rows(whole) : whole;
}

}  // namespace llmtrain
