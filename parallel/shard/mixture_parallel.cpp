// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/mixture_parallel.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "parallel/shard/expert_exchange.h"
#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

at::Tensor tensor_of_rows(const at::Tensor& like, std::int64_t rows) {
  std::vector<std::int64_t> shape = like.sizes().vec();
  shape[0] = rows;
  return at::empty(shape, like.options());
}

// The first rank's order of the methods, as each rank may have priced them by another profile. Collective.
ExchangeMethods agree_on_order(Communicator& communicator, ExchangeMethods methods) {
  std::vector<std::int64_t> numbers;
  for (const auto& bucket : methods.of_buckets)
    for (const auto& [parts, all_to_all] : bucket)
      numbers.insert(numbers.end(), {parts, static_cast<std::int64_t>(all_to_all)});
  const Array shared{numbers.data(), static_cast<std::int64_t>(numbers.size()), ElementType::int64};
  communicator.broadcast(communicator.world(), Purpose::control, shared, 0).wait();
  auto next = numbers.begin();
  for (auto& bucket : methods.of_buckets)
    for (auto& [parts, all_to_all] : bucket) {
      parts = *next++;
      all_to_all = static_cast<AllToAll>(*next++);
    }
  return methods;
}

}  // namespace

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

void RowParallel::exchange(const at::Tensor& sent, std::span<const std::int64_t> input, const at::Tensor& received,
                           std::span<const std::int64_t> output) const {
  communicator_->all_to_all_v(group_, purpose_, array_of(sent), array_of(received), {input, output}).wait();
}

MixtureParallel::MixtureParallel(Communicator& communicator, const Layout& layout)
    : overlap_(layout.partition().exchange.planned.parts) {
  if (!layout.recipe().model.moe) return;
  if (const ExchangeMethods& methods = layout.partition().exchange; methods.are_open())
    tuner_ = std::make_shared<ExchangeTuner>(agree_on_order(communicator, methods));
  const auto group = [&](const char* name, GroupKind kind) {
    return communicator.make_group(name, group_members(layout.mesh(), kind, communicator.rank()));
  };
  const auto has_peers = [&](GroupKind kind) { return rank_group(layout.mesh(), kind).ranks > 1; };
  if (has_peers(GroupKind::expert)) experts_ = make_expert_ranks(communicator, layout, tuner_.get());
  if (has_peers(GroupKind::expert_tensor))
    features_.emplace(communicator, group("expert tensor", GroupKind::expert_tensor), Purpose::tensor_parallel);
  if (has_peers(GroupKind::tokens)) tokens_.emplace(communicator, group("tokens", GroupKind::tokens), Purpose::expert);
}

MixtureRanks MixtureParallel::ranks() const {
  return {experts_.get(), features_ ? &*features_ : nullptr, tokens_ ? &*tokens_ : nullptr, overlap_, tuner_.get()};
}

}  // namespace llmtrain
