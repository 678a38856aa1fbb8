// SPDX-License-Identifier: Apache-2.0
#include "kernels/muon/orthogonalize.h"

#include <ATen/ops/empty.h>

#include "kernels/cuda/tensor_operands.h"
#include "kernels/cuda_operators/muon.h"
#include "kernels/gemm.h"
#include "kernels/reduction.h"

namespace llmtrain::kernels {
namespace {

// Its authors' coefficients maximise the slope at 0, so that small singular values grow in few steps, and do not
// converge to 1.
constexpr MuonPolynomial quintic{.unit = 3.4445, .gram = -4.7750, .square = 2.0315};
// Keeps a matrix of zeros from being divided by 0.
constexpr double smallest_norm = 1e-7;

// Frobenius' norm is no less than the largest singular value and needs no iteration: all of them begin within [0, 1];
// far above 1 the iteration would diverge.
at::Tensor normalized(const at::Tensor& matrix, at::ScalarType products) {
  const at::Tensor sum = sum_of_squares_there(matrix);
  if (has_cuda_muon(matrix, matrix)) return cuda_muon_normalized(matrix, sum, smallest_norm, products);
  return matrix.div(sum.sqrt().clamp_min_(smallest_norm)).to(products);
}

// The Gram matrix of the shorter side: it is the smaller one, and its products take fewer FLOPs. By the products of
// linear layers, which run in oneDNN on a CPU.
at::Tensor gram_matrix(const at::Tensor& x, bool is_tall) {
  if (!is_tall) return kernels::linear(x, x, std::nullopt);
  at::Tensor gram = at::empty({x.size(1), x.size(1)}, x.options());
  linear_backward_weight(x, x, gram, Accumulation::overwrite);
  return gram;
}

// With the unit matrix in it, a product with the result is all that a step has left to do, without another pass over
// the iterate.
at::Tensor polynomial_of(const at::Tensor& gram) {
  at::Tensor result = linear_backward_input(gram, gram);
  if (has_kernels(result)) {
    cuda_muon_polynomial_(result, gram, quintic);
  } else {
    result.mul_(quintic.square).add_(gram, quintic.gram).diagonal().add_(quintic.unit);
  }
  return result;
}

}  // namespace

at::Tensor orthogonalize(const at::Tensor& matrix, std::int64_t steps, at::ScalarType products, double scale) {
  const bool is_tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = normalized(matrix, products);
  for (std::int64_t step = 0; step < steps; ++step) {
    // The Gram matrix is released before the next product allocates its result: plans count one matrix of this size
    // (muon_workspace()).
    const at::Tensor factor = polynomial_of(gram_matrix(x, is_tall));
    x = is_tall ? linear_backward_input(x, factor) : linear_backward_input(factor, x);
  }
  if (has_kernels(x) && matrix.scalar_type() == at::kFloat) return cuda_muon_scaled(x, scale);
  return x.to(matrix.scalar_type()).mul_(scale);
}

}  // namespace llmtrain::kernels
