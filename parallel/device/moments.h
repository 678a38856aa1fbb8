// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <vector>

namespace llmtrain {

// Records when a rank's work reaches certain points: on a CPU when the thread does, on a GPU when the stream does on
// which the thread enqueues its work, which is later.
class Moments {
 public:
  explicit Moments(const c10::Device& device) : device_(device) { start_from_now(); }

  // Resets time zero; there must be no noted points.
  void start_from_now() { start_ = Clock::now(); }
  // Records the current point. Does not block.
  void note();
  // Returns the seconds of all points noted since the last call and clears them. Blocks until a GPU has reached the
  // last.
  std::vector<double> take();

 private:
  using Clock = std::chrono::steady_clock;
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  c10::Device device_;
  Clock::time_point start_;
  std::vector<double> seconds_;
  std::vector<c10::Event> events_;  // GPU only
};

}  // namespace llmtrain
