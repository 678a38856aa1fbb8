// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction.h"

#include <ATen/Parallel.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/accumulation_type.h"
#include "kernels/cuda_operators/squares.h"
#include "kernels/vector/level.h"
#include "kernels/vector/reduction.h"

namespace llmtrain::kernels {
namespace {

// Elements per partial sum: fixed, so that the sums and their order do not depend on the number of threads.
constexpr std::int64_t block = 16384;

template <class Value>
double sum_over_blocks(double (*kernel)(const Value*, std::int64_t), const at::Tensor& x) {
  const auto* values = static_cast<const Value*>(x.const_data_ptr());
  const std::int64_t n = x.numel();
  std::vector<double> sums((n + block - 1) / block);
  at::parallel_for(0, static_cast<std::int64_t>(sums.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) sums[i] = kernel(values + i * block, std::min(block, n - i * block));
  });
  // In the order of the blocks, whichever thread made each.
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// The loops know no fp16: it is widened a block at a time.
double sum_of_fp16(double (*kernel)(const float*, std::int64_t), const at::Tensor& x) {
  const at::Tensor flat = x.flatten();
  double sum = 0;
  for (const at::Tensor& part : flat.split(block))
    sum += kernel(part.to(at::kFloat).const_data_ptr<float>(), part.numel());
  return sum;
}

double reference_sum(const at::Tensor& x) {
  // Other types sum in LibTorch's order, in float64 as well.
  const double norm = at::linalg_vector_norm(x, 2, at::OptionalIntArrayRef(), false, at::kDouble).item<double>();
  return norm * norm;
}

// The sum over the rows of [rows, elements]. LibTorch reads 16-bit numbers as they are where the result is fp32, and
// would make a copy of all numbers in float64 where that is the result.
at::Tensor squares_of_rows(const at::Tensor& x) {
  return at::linalg_vector_norm(x, 2, at::IntArrayRef{1}, false, accumulation_type(x)).to(at::kDouble).square().sum();
}

// Shorter than a processor's blocks, which are summed in float64: rounding grows with the length.
constexpr std::int64_t device_row = 2048;

at::Tensor device_sum(const at::Tensor& x) {
  if (has_cuda_squares(x)) return cuda_sum_of_squares(x);
  const at::Tensor flat = x.reshape({-1});
  const std::int64_t n = flat.numel(), whole = n / device_row * device_row;
  if (whole == 0) return squares_of_rows(flat.unsqueeze(0));
  const at::Tensor sum = squares_of_rows(flat.narrow(0, 0, whole).view({-1, device_row}));
  return whole == n ? sum : sum.add(squares_of_rows(flat.narrow(0, whole, n - whole).unsqueeze(0)));
}

}  // namespace

double sum_of_squares(const at::Tensor& x) {
  if (!x.device().is_cpu()) return device_sum(x).item<double>();
  const auto kernels = vector::at_level([]<int level> { return vector::sum_of_squares_kernels_for<level>(); });
  const bool flat = x.is_contiguous();
  if (flat && x.scalar_type() == at::kFloat) return sum_over_blocks(kernels.fp32, x);
  if (flat && x.scalar_type() == at::kBFloat16) return sum_over_blocks(kernels.bf16, x);
  if (flat && x.scalar_type() == at::kHalf) return sum_of_fp16(kernels.fp32, x);
  return reference_sum(x);
}

at::Tensor sum_of_squares_there(const at::Tensor& x) {
  return x.device().is_cpu() ? at::scalar_tensor(sum_of_squares(x), at::kDouble) : device_sum(x);
}

}  // namespace llmtrain::kernels
