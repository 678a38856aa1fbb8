// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "core/base/elapsed_time.h"

namespace llmtrain {

// How long a thread has been in certain calls, which may call each other.
class CallTime {
 public:
  // Counts its scope.
  class Scope {
   public:
    explicit Scope(CallTime& time) : time_(time), is_outer_(!time.is_inside_) {
      if (is_outer_) time_.start_ = Clock::now();
      time_.is_inside_ = true;
    }
    ~Scope() {
      if (!is_outer_) return;
      time_.seconds_ = time_.seconds();
      time_.is_inside_ = false;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    CallTime& time_;
    bool is_outer_;
  };

  // Up to now, also within a call. reset() is for outside of them.
  double seconds() const { return seconds_ + (is_inside_ ? seconds_since(start_) : 0); }
  void reset() { seconds_ = 0; }

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_ = 0;
  bool is_inside_ = false;
  Clock::time_point start_{};
};

}  // namespace llmtrain
