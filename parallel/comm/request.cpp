// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/request.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace llmtrain {

std::string GroupMembers::description() const {
  // Keeps messages readable in worlds of thousands of ranks.
  constexpr std::size_t shown_ranks = 16;
  std::string text = name + " [";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == shown_ranks) return text + " …]";
    if (i > 0) text += ' ';
    text += std::to_string(ranks[i]);
  }
  return text + "]";
}

const std::byte* Request::input_at(std::int64_t element) const {
  return static_cast<const std::byte*>(input) + element * element_size(type);
}

std::byte* Request::output_at(std::int64_t element) const {
  return static_cast<std::byte*>(output) + element * element_size(type);
}

std::int64_t Request::total_count() const {
  switch (collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return count * group.size();
    case Collective::all_to_all:
      return std::reduce(input_counts.begin(), input_counts.end());
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::send:
    case Collective::receive:
    case Collective::barrier:
      break;
  }
  return count;
}

void Request::require_host_memory() const {
  if (memory == Memory::host) return;
  throw Error(ExitCode::internal_error, description() + ": its memory is on a device; stage it through the host");
}

double Request::ring_bytes() const {
  if (collective == Collective::all_to_all) {
    // What a rank keeps for itself crosses no link.
    const std::int64_t kept = input_counts[static_cast<std::size_t>(group.position())];
    return static_cast<double>(total_count() - kept) * element_bytes(type);
  }
  // By convention the whole broadcast is charged to its root.
  if (collective == Collective::broadcast && peer != group.position()) return 0;
  return llmtrain::ring_bytes(collective, group.size(), static_cast<double>(total_count()) * element_bytes(type));
}

OperationSummary Request::summary() const { return {collective, purpose, type, total_count(), peer, group.members()}; }

bool OperationSummary::involves(int rank) const {
  const bool is_message = collective == Collective::send || collective == Collective::receive;
  if (is_message) return group->ranks[static_cast<std::size_t>(peer)] == rank;
  return std::ranges::count(group->ranks, rank) > 0;
}

std::string OperationSummary::description() const {
  std::string text(collective_name(collective));
  if (collective != Collective::barrier)
    text += " of " + std::to_string(total_count) + " " + std::string(element_name(type));
  const auto place = static_cast<std::size_t>(peer);
  if (peer >= 0 && place < group->ranks.size()) {
    text += collective == Collective::send ? " to rank " : " from rank ";
    text += std::to_string(group->ranks[place]);
  }
  return text + " for " + std::string(purpose_name(purpose)) + " in group " + group->description();
}

}  // namespace llmtrain
