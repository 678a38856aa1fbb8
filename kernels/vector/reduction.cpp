// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/reduction.h"

#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

constexpr int width = 8;  // of one accumulator
constexpr int count = 4;  // accumulators: the latency of an addition, hidden
constexpr int lanes = width * count;

using Doubles [[gnu::vector_size(8 * width)]] = double;
using Floats [[gnu::vector_size(4 * width)]] = float;
using Words [[gnu::vector_size(4 * width)]] = std::uint32_t;
using Halves [[gnu::vector_size(2 * width)]] = std::uint16_t;

struct Accumulator {
  Doubles sum = {};

  void add(const float* x) {
    Floats values;
    __builtin_memcpy(&values, x, sizeof(values));
    const Doubles wide = __builtin_convertvector(values, Doubles);
    sum += wide * wide;
  }

  void add(const std::uint16_t* x) {
    Halves bits;
    __builtin_memcpy(&bits, x, sizeof(bits));
    const Words words = __builtin_convertvector(bits, Words) << 16;
    Floats values;
    __builtin_memcpy(&values, &words, sizeof(values));
    const Doubles wide = __builtin_convertvector(values, Doubles);
    sum += wide * wide;
  }
};

template <class Value>
double sum_of_squares(const Value* x, std::int64_t n) {
  Accumulator accumulators[count];
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int k = 0; k < count; ++k) accumulators[k].add(x + i + k * width);
  }
  Value tail[lanes] = {};
  for (int k = 0; i + k < n; ++k) tail[k] = x[i + k];
  for (int k = 0; k < count; ++k) accumulators[k].add(tail + k * width);
  double total = 0;
  for (const Accumulator& accumulator : accumulators) {
    for (int k = 0; k < width; ++k) total += accumulator.sum[k];
  }
  return total;
}

}  // namespace

template <>
SumOfSquaresKernels sum_of_squares_kernels_for<LLMTRAIN_VECTOR_LEVEL>() {
  return {sum_of_squares<float>, sum_of_squares<std::uint16_t>};
}

}  // namespace llmtrain::kernels::vector
