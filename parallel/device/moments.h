// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <vector>

namespace llmtrain {

// When a rank's work reached the points that it notes: on a CPU the thread itself, on a GPU the stream that the thread
// puts its work on, which is behind it.
class Moments {
 public:
  explicit Moments(const c10::Device& device) : device_(device) { start_from_now(); }

  // Times count from here; nothing may be noted.
  void start_from_now() { start_ = Clock::now(); }
  // Does not block.
  void note();
  // Seconds of what was noted since the last call, which are forgotten. Waits until a GPU has reached the last of it.
  std::vector<double> take();

 private:
  using Clock = std::chrono::steady_clock;
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  c10::Device device_;
  Clock::time_point start_;
  std::vector<double> seconds_;
  std::vector<c10::Event> events_;  // of a GPU
};

}  // namespace llmtrain
