// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/mixture_parallel.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "parallel/shard/expert_exchange.h"

namespace llmtrain {
namespace {

// The first rank's. Collective.
void share(Communicator& communicator, std::vector<std::int64_t>& numbers) {
  const Array shared{numbers.data(), static_cast<std::int64_t>(numbers.size()), ElementType::int64};
  communicator.broadcast(communicator.world(), Purpose::control, shared, 0).wait();
}

// The first rank's order of the methods, as each rank may have priced them by another profile. Collective.
ExchangeMethods agree_on_order(Communicator& communicator, ExchangeMethods methods) {
  std::vector<std::int64_t> numbers;
  for (const auto& bucket : methods.of_buckets)
    for (const auto& [parts, all_to_all] : bucket)
      numbers.insert(numbers.end(), {parts, static_cast<std::int64_t>(all_to_all)});
  share(communicator, numbers);
  auto next = numbers.begin();
  for (auto& bucket : methods.of_buckets)
    for (auto& [parts, all_to_all] : bucket) {
      parts = *next++;
      all_to_all = static_cast<AllToAll>(*next++);
    }
  return methods;
}

}  // namespace

MixtureParallel::MixtureParallel(Communicator& communicator, const Layout& layout)
    : overlap_(layout.partition().exchange.planned.parts) {
  if (!layout.recipe().model.moe) return;
  if (const ExchangeMethods& methods = layout.partition().exchange; methods.are_open())
    tuner_ = std::make_shared<ExchangeTuner>(agree_on_order(communicator, methods));
  const auto group = [&](const char* name, GroupKind kind) {
    return communicator.make_group(name, group_members(layout.mesh(), kind, communicator.rank()));
  };
  const auto has_peers = [&](GroupKind kind) { return rank_group(layout.mesh(), kind).ranks > 1; };
  // By the layout alone: making a group is collective, so that all ranks must make the same ones in the same order.
  if (has_peers(GroupKind::expert)) experts_ = make_expert_ranks(communicator, layout, tuner_.get());
  if (has_peers(GroupKind::expert_tensor))
    slices_.emplace(communicator, group("expert tensor", GroupKind::expert_tensor), Purpose::tensor_parallel);
  if (has_peers(GroupKind::tokens)) tokens_.emplace(communicator, group("tokens", GroupKind::tokens), Purpose::expert);
  if (layout.mesh().switches_experts || layout.mesh().expert_joined > 1)
    splits_ = std::make_shared<ExpertSplits>(communicator, layout.partition());
  if (!layout.mesh().switches_experts) return;
  std::vector<std::int64_t> order = layout.partition().expert_splits;
  share(communicator, order);
  split_tuner_ = std::make_shared<SplitTuner>(std::move(order));
  splits_->use(split_tuner_->current());
}

MixtureRanks MixtureParallel::ranks() const {
  const RowRanks* features = splits_.get();
  if (features == nullptr && slices_) features = &*slices_;
  return {experts_.get(), features, tokens_ ? &*tokens_ : nullptr, overlap_, tuner_.get()};
}

}  // namespace llmtrain
