// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>

#include "parallel/comm/operation_log.h"

namespace llmtrain {

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

}  // namespace llmtrain
