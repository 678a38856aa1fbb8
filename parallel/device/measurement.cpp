// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/measurement.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "kernels/gemm.h"
#include "kernels/host_copy.h"
#include "parallel/device/device.h"
#include "parallel/device/device_runtime.h"

namespace llmtrain {

void Moments::note() {
  if (device_.is_cpu()) {
    seconds_.push_back(now());
    return;
  }
  events_.emplace_back(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  events_.back().record(kernels::current_stream(device_));
}

// Events measure only the time between each other: the host's time of the last one anchors the others.
std::vector<double> Moments::take() {
  if (!events_.empty()) {
    events_.back().synchronize();
    const double end = now();
    for (const c10::Event& event : events_) seconds_.push_back(end - event.elapsedTime(events_.back()) * 1e-3);
    events_.clear();
  }
  return std::exchange(seconds_, {});
}

at::Tensor random_operand(at::IntArrayRef sizes, c10::ScalarType type, const c10::Device& device) {
  // Made on the CPU, in fp32: the same numbers on every device, of types that generators lack, and not of the program's
  // generator, whose numbers others count on. A few, repeated, because a GPU's operands have billions; their number is
  // odd, so that rows differ.
  constexpr std::int64_t numbers = (std::int64_t{1} << 16) + 1;
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const at::Tensor some = at::randn({numbers}, generator, at::TensorOptions(at::kFloat)).to(type).to(device);
  const std::int64_t elements = c10::multiply_integers(sizes), times = (elements + numbers - 1) / numbers;
  return some.repeat({times}).narrow(0, 0, elements).view(sizes);
}

double measure_matmul_rate(const c10::Device& device, c10::ScalarType type) {
  const std::int64_t size = runtime_of(device).measuring_size();
  const at::Tensor matrix = random_operand({size, size}, type, device);
  double best_seconds = 1e30;
  int near_best = 0;
  const auto begin = std::chrono::steady_clock::now();
  const double most_seconds = runtime_of(device).measuring_seconds();
  // Repeat long enough that other programs do not disturb every attempt; the best one counts. A processor that takes
  // equally long three times is not disturbed.
  do {
    synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    const at::Tensor product = kernels::linear(matrix, matrix, std::nullopt);
    synchronize(device);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    near_best = std::abs(seconds.count() / best_seconds - 1) < 0.02 ? near_best + 1 : 1;
    best_seconds = std::min(best_seconds, seconds.count());
  } while (seconds_since(begin) < most_seconds && (!device.is_cpu() || near_best < 3));
  const auto cube = static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  return 2 * cube / best_seconds;
}

}  // namespace llmtrain
