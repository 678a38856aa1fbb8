// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>

#include "tests/cuda_on_host/machine/launch.h"

namespace llmtrain::kernels {

// The order of threads and blocks that a seed decides (tests/cuda_on_host), while this lives.
class ThreadOrder {
 public:
  explicit ThreadOrder(std::uint64_t seed) { cuda_on_host::options.seed = seed; }
  ~ThreadOrder() { cuda_on_host::options.seed = cuda_on_host::Options().seed; }
  ThreadOrder(const ThreadOrder&) = delete;
  ThreadOrder& operator=(const ThreadOrder&) = delete;
};

// Seeds: five; under the address sanitizer, with which fibers take ten times as long, two; under the thread sanitizer,
// which finds the same races in every order, one.
inline auto thread_orders() {
#ifdef CUDA_ON_HOST_THREAD
  constexpr std::uint64_t end = 2;
#elif defined(CUDA_ON_HOST_ADDRESS)
  constexpr std::uint64_t end = 3;
#else
  constexpr std::uint64_t end = 6;
#endif
  return Catch::Generators::range(std::uint64_t{1}, end);
}

}  // namespace llmtrain::kernels
