// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "parallel/device/device.h"
#include "parallel/device/device_runtime.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// How long to measure, and what.
struct Thoroughness {
  double shortest_timing = 0;  // seconds: shorter timings are dominated by clock and scheduler noise
  std::size_t timings = 0;     // their median counts
  // Tokens of micro-batches, and [columns, inner] of a transformer's layers, for a CPU: see Stopwatch::scaled().
  std::vector<std::int64_t> rows;
  std::vector<std::pair<std::int64_t, std::int64_t>> layers;
};

inline Thoroughness thoroughness_of(Effort effort) {
  if (effort == Effort::quick) return {0.004, 3, {128, 1024}, {{256, 256}, {1024, 256}, {768, 768}, {768, 3072}}};
  return {0.01, 5, {64, 256, 1024, 2048}, {{256, 256}, {1024, 256}, {256, 1024}, {768, 768}, {3072, 768}, {768, 3072}}};
}

// Times what a device does.
class Stopwatch {
 public:
  Stopwatch(const c10::Device& device, Thoroughness thoroughness)
      : device_(device), thoroughness_(std::move(thoroughness)) {}

  const c10::Device& device() const { return device_; }
  const Thoroughness& thoroughness() const { return thoroughness_; }

  // A size of an operand for this device. A GPU takes eight times that of a CPU, since it needs more to be busy: what
  // measuring_size() says, in these proportions.
  std::int64_t scaled(std::int64_t size) const {
    if (device_.is_cpu()) return size;
    // FP8's products demand multiples of 16.
    return std::max<std::int64_t>(16, size * runtime_of(device_).measuring_size() / 1024 / 16 * 16);
  }

  // The median time of one call. Repeats double until a timing is long enough; too short ones also serve as warm-up.
  template <class Call>
  double seconds_of(Call call) const {
    std::vector<double> samples;
    std::int64_t repeats = 1;
    while (samples.size() < thoroughness_.timings) {
      synchronize(device_);
      const auto start = std::chrono::steady_clock::now();
      for (std::int64_t i = 0; i < repeats; ++i) call();
      synchronize(device_);
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      if (elapsed.count() < thoroughness_.shortest_timing) {
        repeats *= 2;
        continue;
      }
      samples.push_back(elapsed.count() / static_cast<double>(repeats));
    }
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
    std::ranges::nth_element(samples, middle);
    return *middle;
  }

 private:
  c10::Device device_;
  Thoroughness thoroughness_;
};

}  // namespace llmtrain
