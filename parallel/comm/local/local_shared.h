// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/backend.h"
#include "parallel/comm/local/link_model.h"
#include "parallel/comm/local/local_world.h"

namespace llmtrain {

class LocalExchange;

// The threads of one rank sleep on it until another thread rings; every ring makes them check their condition again.
class Doorbell {
 public:
  void ring() {
    // Taking the lock orders the ring after a sleeper's check: without it the wake-up could fall between check and
    // sleep.
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

  // Blocks until `condition()` is true or the deadline has passed; returns the condition. It must be safe to call from
  // any thread, and whoever makes it true must ring afterwards.
  template <class Condition>
  bool wait_until(Clock::time_point deadline, Condition condition) {
    // Poll briefly first: sleeping and waking up takes longer than these checks.
    for (int look = 0; look < looks_before_sleep; ++look) {
      if (condition()) return true;
    }
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, condition);
  }

 private:
  static constexpr int looks_before_sleep = 100;
  std::mutex mutex_;
  std::condition_variable changed_;
};

// State that the members of a group share: the operations that not all of them have started yet. Only the operations'
// handles own the exchanges: one that all members have dropped disappears.
struct LocalMeeting {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<LocalExchange>> collectives;  // by number
  struct Line {  // messages from one position to another: the number that each side has started, and the unmatched ones
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::map<std::uint64_t, std::weak_ptr<LocalExchange>> open;
  };
  std::map<std::pair<int, int>, Line> lines;
  std::size_t members = 0;  // members that have created the group
};

// State that the ranks of one LocalWorld share. Thread-safe.
class LocalShared {
 public:
  LocalShared(int ranks, const LocalOptions& options);

  int size() const { return static_cast<int>(bells_.size()); }
  double watchdog_seconds() const { return options_.watchdog_seconds; }
  LinkModel& links() { return links_; }
  Doorbell& bell(int rank) { return bells_[static_cast<std::size_t>(rank)]; }
  void ring(const std::vector<int>& ranks);

  const FailureNote& failure() const { return failure_; }
  // Stores the failure and wakes all ranks. Only the first failure counts.
  void fail(Failure failure);

  // The rank's log, which stays readable after its communicator is gone.
  void set_log(int rank, std::shared_ptr<OperationLog> log);
  // "rank 3 (last operation: …), rank 4 (…)"
  std::string describe_ranks(const std::vector<int>& ranks) const;

  // The meeting of the group with this name and these ranks; the n-th such group of a rank is the n-th of the others.
  std::shared_ptr<LocalMeeting> meeting(int rank, const std::string& name, const std::vector<int>& ranks);

 private:
  using GroupKey = std::pair<std::string, std::vector<int>>;

  LocalOptions options_;
  LinkModel links_;
  std::vector<Doorbell> bells_;
  FailureNote failure_;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<OperationLog>> logs_;
  std::map<std::pair<GroupKey, std::uint64_t>, std::shared_ptr<LocalMeeting>> meetings_;
  std::map<std::pair<GroupKey, int>, std::uint64_t> made_;  // how often a rank has created a group
};

}  // namespace llmtrain
