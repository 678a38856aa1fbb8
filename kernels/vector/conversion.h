// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// n elements of bf16, as their bits, to fp32 and back, single-threaded.
struct ConversionLoops {
  // Exact.
  void (*widen)(const std::uint16_t* x, float* wide, std::int64_t n);
  // To nearest, ties to even.
  void (*round)(const float* x, std::uint16_t* rounded, std::int64_t n);
};

template <int level>
ConversionLoops conversion_loops_for();

}  // namespace llmtrain::kernels::vector
