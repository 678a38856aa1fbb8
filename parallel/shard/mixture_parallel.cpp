// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/mixture_parallel.h"

#include <ATen/ops/empty.h>

#include <numeric>

#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

at::Tensor tensor_of_rows(const at::Tensor& like, std::int64_t rows) {
  std::vector<std::int64_t> shape = like.sizes().vec();
  shape[0] = rows;
  return at::empty(shape, like.options());
}

}  // namespace

std::vector<std::int64_t> ExpertParallel::exchange_counts(std::span<const std::int64_t> counts) const {
  std::vector<std::int64_t> theirs(counts.size());
  const auto bytes = static_cast<std::int64_t>(counts.size_bytes());
  communicator_
      ->all_to_all(group_, Purpose::expert, ConstArray{counts.data(), bytes, ElementType::uint8},
                   Array{theirs.data(), bytes, ElementType::uint8})
      .wait();
  return theirs;
}

at::Tensor ExpertParallel::exchange_rows(const at::Tensor& rows, std::span<const std::int64_t> sent,
                                         std::span<const std::int64_t> received) const {
  const auto elements = [&](std::span<const std::int64_t> counts) {
    std::vector<std::int64_t> result(counts.begin(), counts.end());
    for (std::int64_t& count : result) count *= rows.size(1);
    return result;
  };
  const at::Tensor result = tensor_of_rows(rows, std::accumulate(received.begin(), received.end(), std::int64_t{0}));
  const std::vector<std::int64_t> input = elements(sent), output = elements(received);
  communicator_->all_to_all_v(group_, Purpose::expert, array_of(rows), array_of(result), {input, output}).wait();
  return result;
}

at::Tensor RowParallel::gather_rows(const at::Tensor& part) const {
  const at::Tensor whole = tensor_of_rows(part, part.size(0) * ranks());
  communicator_->all_gather(group_, purpose_, array_of(part), array_of(whole)).wait();
  return whole;
}

at::Tensor RowParallel::scatter_sum_rows(const at::Tensor& whole) const {
  const at::Tensor part = tensor_of_rows(whole, whole.size(0) / ranks());
  communicator_->reduce_scatter(group_, purpose_, array_of(whole), array_of(part)).wait();
  return part;
}

MixtureParallel::MixtureParallel(Communicator& communicator, const Layout& layout) {
  if (!layout.recipe().model.moe) return;
  const auto group = [&](const char* name, GroupKind kind) {
    return communicator.make_group(name, group_members(layout.mesh(), kind, communicator.rank()));
  };
  const auto has_peers = [&](GroupKind kind) { return rank_group(layout.mesh(), kind).ranks > 1; };
  if (has_peers(GroupKind::expert)) experts_.emplace(communicator, group("expert", GroupKind::expert));
  if (has_peers(GroupKind::expert_tensor))
    features_.emplace(communicator, group("expert tensor", GroupKind::expert_tensor), Purpose::tensor_parallel);
  if (has_peers(GroupKind::tokens)) tokens_.emplace(communicator, group("tokens", GroupKind::tokens), Purpose::expert);
}

MixtureRanks MixtureParallel::ranks() const {
  return {experts_ ? &*experts_ : nullptr, features_ ? &*features_ : nullptr, tokens_ ? &*tokens_ : nullptr};
}

}  // namespace llmtrain
