// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/conversion.h"

#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

void widen(const std::uint16_t* x, float* wide, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) wide[i] = to_float(x[i]);
}

void round(const float* x, std::uint16_t* rounded, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) store(rounded[i], x[i]);
}

}  // namespace

template <>
ConversionLoops conversion_loops_for<LLMTRAIN_VECTOR_LEVEL>() {
  return {widen, round};
}

}  // namespace llmtrain::kernels::vector
