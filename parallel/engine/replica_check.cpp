// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/replica_check.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/machine/host_name.h"
#include "kernels/host_copy.h"
#include "parallel/comm/agreement.h"

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 4> words = {"weights", "states", "experts' weights", "experts' states"};

// Adds a tensor to a hash: a GPU's piece by piece, through pinned memory of a bounded size.
void add(std::int64_t& hash, const at::Tensor& tensor) {
  const auto add_here = [&hash](const at::Tensor& here) {
    hash = static_cast<std::int64_t>(memory_hash(here.data_ptr(), here.nbytes(), static_cast<std::uint64_t>(hash)));
  };
  const at::Tensor whole = tensor.contiguous();
  if (whole.is_cpu()) return add_here(whole);
  constexpr std::int64_t piece = std::int64_t{1} << 24;  // bytes
  for (const at::Tensor& part : whole.view({-1}).view(at::kByte).split(piece)) add_here(kernels::to_host(part));
}

GroupKind group_of(Replicated what, bool shards_states) {
  switch (what) {
    case Replicated::weights:
      return GroupKind::data;
    case Replicated::states:
      return shards_states ? GroupKind::replica : GroupKind::data;
    case Replicated::expert_weights:
      return GroupKind::expert_data;
    case Replicated::expert_states:
      return shards_states ? GroupKind::expert_replica : GroupKind::expert_data;
  }
  return GroupKind::data;
}

// Those of a group that do not have the value of more than half of it.
std::vector<int> minority(const std::vector<int>& group, std::span<const ReplicaHashes> of_each, std::size_t what) {
  std::map<std::int64_t, std::size_t> counts;
  const auto value = [&](int rank) { return of_each[static_cast<std::size_t>(rank)][what]; };
  for (const int rank : group) ++counts[value(rank)];
  std::vector<int> others = group;
  std::erase_if(others, [&](int rank) { return 2 * counts[value(rank)] > group.size(); });
  return others;
}

std::string describe(const ReplicaDifference& difference, const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const int rank : difference.ranks)
    names.push_back(fmt::format("rank {} (host {})", rank, hosts[static_cast<std::size_t>(rank)]));
  const auto what = words[static_cast<std::size_t>(difference.what)];
  if (difference.ranks.size() == difference.group.size())
    return fmt::format("the {} of {} differ, and nothing says whose are right", what, fmt::join(names, " and "));
  return fmt::format("the {} of {} differ from those of the other ranks of {}", what, fmt::join(names, ", "),
                     difference.group);
}

}  // namespace

// Bits are hashed: replicas apply the same updates in the same order, so that any difference is a fault and no
// tolerance is needed.
ReplicaHashes replica_hashes(LocalModel& model) {
  ReplicaHashes hashes{};
  for (const ParameterUnit* unit : model.units()) {
    const bool are_experts = unit->kind == StateGroup::Kind::experts;
    const auto of = [&](Replicated dense, Replicated experts) -> std::int64_t& {
      return hashes[static_cast<std::size_t>(are_experts ? experts : dense)];
    };
    std::int64_t& states = of(Replicated::states, Replicated::expert_states);
    const auto add_pieces = [&](const StateValues& values) {
      values.for_pieces([&](const FlatInterval&, const at::Tensor& piece) { add(states, piece); });
    };
    add_pieces(unit->parameters->source_values());
    for (std::size_t i = 0; i < unit->parameters->optimizer_states().size(); ++i)
      add_pieces(unit->parameters->state_values(i));
    // No rank has whole weights at ZeRO-3; its shard of them is among the states.
    if (model.gathers_for_use()) continue;
    std::int64_t& weights = of(Replicated::weights, Replicated::expert_weights);
    ParameterStore& seen = unit->parameters->seen();
    for (const FlatRange& range : seen.ranges()) add(weights, seen.weight(range.parameter));
  }
  return hashes;
}

std::vector<ReplicaDifference> replica_differences(const Mesh& mesh, std::span<const ReplicaHashes> of_each,
                                                   bool shards_states) {
  std::vector<ReplicaDifference> differences;
  for (std::size_t what = 0; what < words.size(); ++what) {
    const GroupKind kind = group_of(static_cast<Replicated>(what), shards_states);
    for (int rank = 0; rank < static_cast<int>(of_each.size()); ++rank) {
      const std::vector<int> group = group_members(mesh, kind, rank);
      if (group.front() != rank) continue;  // each group once
      std::vector<int> ranks = minority(group, of_each, what);
      if (!ranks.empty()) differences.push_back({static_cast<Replicated>(what), std::move(ranks), group});
    }
  }
  return differences;
}

void check_replicas(LocalModel& model, std::int64_t step) {
  Communicator& communicator = model.groups().communicator();
  const ReplicaHashes own = replica_hashes(model);
  std::vector<ReplicaHashes> all(static_cast<std::size_t>(communicator.size()));
  const auto count = static_cast<std::int64_t>(own.size());
  communicator
      .all_gather(communicator.world(), Purpose::control, {own.data(), count, ElementType::int64},
                  {all.data(), count * communicator.size(), ElementType::int64})
      .wait();
  const auto found = replica_differences(model.groups().mesh, all, model.layout().partition().zero_stage() > 0);
  if (found.empty()) return;
  // Only the first rank gets the hosts; all throw its words.
  const std::vector<std::string> hosts = gather_texts(communicator, host_name());
  std::string text;
  if (communicator.rank() == 0)
    text = fmt::format(
        "step {}: {}, though these ranks must hold the same; a memory or processor is faulty there: "
        "leave it out and run the same command again, which resumes from the newest checkpoint",
        step, describe(found.front(), hosts));
  throw Error(ExitCode::rank_lost, share_text(communicator, text));
}

}  // namespace llmtrain
