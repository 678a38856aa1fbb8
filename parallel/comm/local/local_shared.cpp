// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/local/local_shared.h"

#include <algorithm>
#include <bit>

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

LinkModel::LinkModel(int ranks, double delay_seconds, double bytes_per_second)
    : delay_seconds_(delay_seconds), bytes_per_second_(bytes_per_second), free_from_(static_cast<std::size_t>(ranks)) {}

// A bandwidth of 0 means unlimited.
Clock::duration LinkModel::sending_time(double bytes) const {
  return bytes_per_second_ > 0 ? to_duration(bytes / bytes_per_second_) : Clock::duration::zero();
}

LinkModel::Passage LinkModel::message(int sender, double bytes, Clock::time_point start) {
  const std::lock_guard lock(mutex_);
  Clock::time_point& free_from = free_from_[static_cast<std::size_t>(sender)];
  // Messages of one sender queue on its link; the delay is added after the last byte has left and occupies nothing.
  free_from = std::max(free_from, start) + sending_time(bytes);
  return {free_from, free_from + to_duration(delay_seconds_)};
}

Clock::time_point LinkModel::collective(const std::vector<Request>& requests, Clock::time_point start) {
  const std::lock_guard lock(mutex_);
  const std::vector<int>& ranks = requests.front().group.ranks();
  double bytes = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    // A ring proceeds at the pace of its slowest member: it starts when all links are free and takes the most bytes.
    start = std::max(start, free_from_[static_cast<std::size_t>(ranks[i])]);
    bytes = std::max(bytes, requests[i].ring_bytes());
  }
  const Clock::time_point left = start + sending_time(bytes);
  for (const int rank : ranks) free_from_[static_cast<std::size_t>(rank)] = left;
  const int count = hops(requests.front().collective, static_cast<int>(ranks.size()));
  return left + to_duration(delay_seconds_ * count);
}

LocalShared::LocalShared(int ranks, const LocalOptions& options)
    : options_(options),
      links_(ranks, static_cast<double>(options.link_delay_microseconds) * 1e-6, options.link_bytes_per_second),
      bells_(static_cast<std::size_t>(ranks)),
      logs_(static_cast<std::size_t>(ranks)) {}

void LocalShared::ring(const std::vector<int>& ranks) {
  for (const int rank : ranks) bell(rank).ring();
}

void LocalShared::fail(Failure failure) {
  // Later failures are consequences of the first one, whose ring has already woken everyone.
  if (!failure_.set(std::move(failure))) return;
  for (Doorbell& bell : bells_) bell.ring();
}

void LocalShared::set_log(int rank, std::shared_ptr<OperationLog> log) {
  const std::lock_guard lock(mutex_);
  logs_[static_cast<std::size_t>(rank)] = std::move(log);
}

std::string LocalShared::describe_ranks(const std::vector<int>& ranks) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const int rank : ranks) {
    const std::shared_ptr<OperationLog>& log = logs_[static_cast<std::size_t>(rank)];
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank) +
            " (last operation: " + (log ? log->last_operation() : "none") + ")";
  }
  return text;
}

std::shared_ptr<LocalMeeting> LocalShared::meeting(int rank, const std::string& name, const std::vector<int>& ranks) {
  const std::lock_guard lock(mutex_);
  const GroupKey key{name, ranks};
  // The same group may be created repeatedly; the count distinguishes its instances.
  const std::pair place{key, made_[{key, rank}]++};
  std::shared_ptr<LocalMeeting>& entry = meetings_[place];
  if (entry == nullptr) entry = std::make_shared<LocalMeeting>();
  const std::shared_ptr<LocalMeeting> result = entry;
  // The last member has come: the next group of this name is a new one.
  if (++result->members == ranks.size()) meetings_.erase(place);
  return result;
}

}  // namespace llmtrain
