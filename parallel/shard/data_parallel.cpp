// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/data_parallel.h"

#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

Group make_group(Communicator& communicator, const std::string& name, const RankGroup& group) {
  return communicator.make_group(name, strided_ranks(communicator.rank(), group.ranks, group.stride));
}

}  // namespace

DataParallel::DataParallel(Communicator& communicator, const Mesh& mesh)
    : communicator_(&communicator),
      data_(make_group(communicator, "data", data_group(mesh))),
      shard_(make_group(communicator, "shard", shard_group(mesh))),
      replica_(make_group(communicator, "replica", replica_group(mesh))) {}

Handle DataParallel::sum(const at::Tensor& whole) const {
  if (ranks() == 1) return {};
  return communicator_->all_reduce(data_, Purpose::data_parallel, array_of(whole));
}

Handle DataParallel::sum_replicas(const at::Tensor& part) const {
  if (replicas() == 1) return {};
  return communicator_->all_reduce(replica_, Purpose::data_parallel, array_of(part));
}

Handle DataParallel::scatter_sum(const at::Tensor& whole, const at::Tensor& part) const {
  if (shards() > 1)
    return communicator_->reduce_scatter(shard_, Purpose::data_parallel, array_of(whole), array_of(part));
  if (!part.is_alias_of(whole)) part.copy_(whole);
  return {};
}

Handle DataParallel::gather(const at::Tensor& part, const at::Tensor& whole) const {
  if (shards() > 1) return communicator_->all_gather(shard_, Purpose::data_parallel, array_of(part), array_of(whole));
  if (!part.is_alias_of(whole)) whole.copy_(part);
  return {};
}

std::vector<double> DataParallel::exchange(std::span<const double> values) const {
  if (communicator_ == nullptr) return {values.begin(), values.end()};
  std::vector<double> all(values.size() * static_cast<std::size_t>(communicator_->size()));
  const auto bytes = [](std::size_t count) { return static_cast<std::int64_t>(count * sizeof(double)); };
  communicator_
      ->all_gather(communicator_->world(), Purpose::control,
                   ConstArray{values.data(), bytes(values.size()), ElementType::uint8},
                   Array{all.data(), bytes(all.size()), ElementType::uint8})
      .wait();
  return all;
}

}  // namespace llmtrain
