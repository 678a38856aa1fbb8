// SPDX-License-Identifier: Apache-2.0
#include "kernels/orthogonalize.h"

#include "kernels/gemm.h"
#include "kernels/reduction.h"

namespace llmtrain::kernels {

at::Tensor orthogonalize(const at::Tensor& matrix, std::int64_t steps, at::ScalarType products) {
  // They maximise the slope at 0, so that small singular values grow in few steps, and do not converge to 1.
  constexpr double first = 3.4445, third = -4.7750, fifth = 2.0315;
  // Keeps a matrix of zeros from being divided by 0.
  constexpr double smallest_norm = 1e-7;
  // The Gram matrix of the shorter side is the smaller one, and its products take fewer FLOPs.
  const bool is_tall = matrix.size(0) > matrix.size(1);
  // Frobenius' norm is no less than the largest singular value and needs no iteration: all of them begin within [0, 1];
  // far above 1 the iteration would diverge.
  const at::Tensor norm = sum_of_squares_there(matrix).sqrt_().clamp_min_(smallest_norm);
  at::Tensor x = (is_tall ? matrix.t() : matrix).div(norm).to(products).contiguous();
  for (std::int64_t step = 0; step < steps; ++step) {
    // By the products of linear layers, which run in oneDNN on a CPU; linear() multiplies with the transposed operand.
    at::Tensor gram = kernels::linear(x, x, std::nullopt);
    const at::Tensor factor = linear_backward_input(gram, gram).mul_(fifth).add_(gram, third);
    // Released before the next product allocates its result: plans count one matrix of this size (muon_workspace()).
    gram.reset();
    x = linear_backward_input(factor, x).add_(x, first);
  }
  const at::Tensor result = x.to(matrix.scalar_type());
  return is_tall ? result.t() : result;
}

}  // namespace llmtrain::kernels
