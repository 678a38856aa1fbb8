// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

namespace llmtrain {

// A pass on a device that the local backend imitates (imitated_machine.h): it begins when this is made, and what the
// processor computes meanwhile is part of it.
class ImitatedPass {
 public:
  explicit ImitatedPass(double seconds)
      : end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

  // Waits for the pass to end; not at all where the processor has taken longer. Blocks.
  void wait() const { std::this_thread::sleep_until(end_); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
};

}  // namespace llmtrain
