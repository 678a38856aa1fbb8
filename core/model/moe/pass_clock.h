// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <functional>
#include <memory>

namespace c10 {
struct Event;
}

namespace llmtrain {

// How long a pass takes on the device that computes it: on a CPU the time of the host, on a GPU that between two events
// on the current stream, so that the host need not wait for it.
class PassClock {
 public:
  // Starts.
  explicit PassClock(const c10::Device& device);

  // Ends; the seconds of a GPU's pass are known, and waited for, when they are asked for.
  std::function<double()> stop() const;

 private:
  c10::Device device_;
  std::chrono::steady_clock::time_point start_;
  std::shared_ptr<c10::Event> start_event_;  // null on a CPU
};

}  // namespace llmtrain
