// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/running_time.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

namespace llmtrain {
namespace {

using namespace std::chrono_literals;

// The thread looks at the steady clock all the time. It slept far longer than it asked only if the process was halted,
// or on a machine so busy that nobody's silence means anything.
class Pulse {
 public:
  Clock::duration now() {
    const std::lock_guard lock(mutex_);
    return since_last_beat(Clock::now());
  }

  [[noreturn]] void beat() {
    constexpr auto interval = 100ms;
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        const Clock::time_point now = Clock::now();
        running_ = since_last_beat(now);
        last_beat_ = now;
      }
      std::this_thread::sleep_for(interval);
    }
  }

 private:
  // Called under the mutex. Whoever is the first to ask after a halt, this thread or another, the halt counts little.
  Clock::duration since_last_beat(Clock::time_point now) const {
    constexpr Clock::duration most = 500ms;
    return running_ + std::min<Clock::duration>(now - last_beat_, most);
  }

  std::mutex mutex_;
  Clock::time_point last_beat_ = Clock::now();
  Clock::duration running_{};
};

// Never destroyed: its thread lasts as long as the process.
Pulse& start_pulse() {
  Pulse* const pulse = std::make_unique<Pulse>().release();
  std::thread([pulse] { pulse->beat(); }).detach();
  return *pulse;
}

}  // namespace

Clock::duration running_time() {
  static Pulse& pulse = start_pulse();
  return pulse.now();
}

}  // namespace llmtrain
