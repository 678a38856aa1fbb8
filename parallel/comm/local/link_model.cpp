// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/local/link_model.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace llmtrain {
namespace {

Clock::duration to_duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Consecutive network hops of the ring algorithm, or of a binary tree for broadcast and barrier.
int hops(Collective collective, int ranks) {
  switch (collective) {
    case Collective::all_reduce:
      return 2 * (ranks - 1);
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return ranks - 1;
    case Collective::broadcast:
    case Collective::barrier:
      return std::bit_width(static_cast<unsigned>(ranks - 1));
    case Collective::all_to_all:
    case Collective::send:
    case Collective::receive:
      break;
  }
  return ranks > 1 ? 1 : 0;
}

}  // namespace

LinkModel::LinkModel(int ranks, const LocalOptions::Links& links)
    : links_(links), free_from_(static_cast<std::size_t>(ranks)) {}

// One pair on different nodes slows a whole ring down to the link between them.
bool LinkModel::share_node(const std::vector<int>& ranks) const {
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return share_node(rank, ranks.front()); });
}

// A bandwidth of 0 means unlimited.
double LinkModel::sending_seconds(double messages, double bytes, bool in_node) const {
  const double seconds =
      messages * links_.message_seconds + (links_.bytes_per_second > 0 ? bytes / links_.bytes_per_second : 0);
  return in_node ? seconds / links_.node_speedup : seconds;
}

// One message to each rank for which there is something.
double LinkModel::all_to_all_seconds(const Request& request) const {
  const std::vector<int>& ranks = request.group.ranks();
  const int own = request.group.rank_at(request.group.position());
  double seconds = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const double bytes = static_cast<double>(request.input_counts[i]) * element_bytes(request.type);
    if (ranks[i] != own && bytes > 0) seconds += sending_seconds(1, bytes, share_node(own, ranks[i]));
  }
  return seconds;
}

LinkModel::Passage LinkModel::message(int sender, int receiver, double bytes, Clock::time_point start) {
  const std::lock_guard lock(mutex_);
  Clock::time_point& free_from = free_from_[static_cast<std::size_t>(sender)];
  const bool in_node = share_node(sender, receiver);
  // Messages of one sender queue on its link; the delay is added after the last byte has left and occupies nothing.
  free_from = std::max(free_from, start) + to_duration(sending_seconds(1, bytes, in_node));
  return {free_from, free_from + to_duration(links_.delay_seconds / (in_node ? links_.node_speedup : 1))};
}

Clock::time_point LinkModel::collective(const std::vector<Request>& requests, Clock::time_point start) {
  const std::lock_guard lock(mutex_);
  const Collective kind = requests.front().collective;
  const std::vector<int>& ranks = requests.front().group.ranks();
  const bool in_node = share_node(ranks);
  const int count = hops(kind, static_cast<int>(ranks.size()));
  double seconds = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    // A ring proceeds at the pace of its slowest member: it starts when all links are free and takes the most bytes.
    start = std::max(start, free_from_[static_cast<std::size_t>(ranks[i])]);
    seconds =
        std::max(seconds, kind == Collective::all_to_all ? all_to_all_seconds(requests[i])
                                                         : sending_seconds(count, requests[i].ring_bytes(), in_node));
  }
  const Clock::time_point left = start + to_duration(seconds);
  for (const int rank : ranks) free_from_[static_cast<std::size_t>(rank)] = left;
  return left + to_duration(links_.delay_seconds * count / (in_node ? links_.node_speedup : 1));
}

}  // namespace llmtrain
