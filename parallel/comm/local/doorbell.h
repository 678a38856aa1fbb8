// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>

#include "parallel/comm/operation_log.h"

namespace llmtrain {

// What the threads of one rank sleep on. A condition that others change is looked at after every ring.
class Doorbell {
 public:
  void ring() {
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

  // Sleeps until `condition()` or the deadline; returns the condition. It must be safe to call from any thread, and
  // whoever makes it true rings afterwards.
  template <class Condition>
  bool wait_until(Clock::time_point deadline, Condition condition) {
    // What is about to happen costs no sleep: a wake-up takes longer than these looks.
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
