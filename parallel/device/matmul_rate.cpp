// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/device.h"

#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>

#include "kernels/gemm.h"

namespace llmtrain {

double measure_matmul_rate(const c10::Device& device, c10::ScalarType type) {
  // Large enough to reach the device's peak, small enough for many tries within the time below.
  const std::int64_t size = device.is_cpu() ? 768 : 8192;
  const at::Tensor matrix = at::ones({size, size}, at::TensorOptions().dtype(type).device(device));
  double best_seconds = 1e30;
  const auto begin = std::chrono::steady_clock::now();
  // Repeat long enough that other programs do not disturb every attempt; the best one counts.
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(100)) {
    synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    const at::Tensor product = kernels::linear(matrix, matrix, std::nullopt);
    synchronize(device);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best_seconds = std::min(best_seconds, seconds.count());
  }
  const auto cube = static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  return 2 * cube / best_seconds;
}

}  // namespace llmtrain
