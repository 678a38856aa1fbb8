// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/reduction.h"

#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

// A fixed number of lanes, a multiple of every register's, fixes the order of the sum at every level and lets several
// registers add at once.
constexpr int lanes = 32;

template <class Value>
void add_squares(const Value* x, int count, double (&sums)[lanes]) {
  for (int k = 0; k < count; ++k) {
    const double wide = to_float(x[k]);
    sums[k] += wide * wide;  // the product of two floats is exact: fused or not, the bits are the same
  }
}

template <class Value>
double sum_of_squares(const Value* x, std::int64_t n) {
  double sums[lanes] = {};
  std::int64_t i = 0;
  // A constant count, so that the compiler unrolls the loop over the lanes.
  for (; i + lanes <= n; i += lanes) add_squares(x + i, lanes, sums);
  add_squares(x + i, static_cast<int>(n - i), sums);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

template <>
SumOfSquaresKernels sum_of_squares_kernels_for<LLMTRAIN_VECTOR_LEVEL>() {
  return {sum_of_squares<float>, sum_of_squares<std::uint16_t>};
}

}  // namespace llmtrain::kernels::vector
