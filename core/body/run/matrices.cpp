// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/zeros.h>

#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"
#include "kernels/accumulation_type.h"

namespace llmtrain::body {
namespace {

at::Tensor wide(const at::Tensor& x) { return x.to(kernels::accumulation_type(x)).contiguous(); }

// L⁻¹·B, or L⁻ᵀ·B.
at::Tensor solved(const at::Tensor& triangle, const at::Tensor& right, bool is_transposed) {
  return at::linalg_solve_triangular(is_transposed ? triangle.mT() : triangle, right, is_transposed);
}

// B and X of a solve as [..., r, columns], where the triangle is [..., r, r].
at::Tensor columns_of(const at::Tensor& x, const at::Tensor& triangle) {
  std::vector<std::int64_t> sizes = triangle.sizes().vec();
  sizes.pop_back();
  std::int64_t columns = 1;
  for (std::int64_t i = triangle.dim() - 1; i < x.dim(); ++i) columns *= x.size(i);
  sizes.push_back(columns);
  return wide(x).view(sizes);
}

}  // namespace

StepResult forward(const Cholesky& cholesky, const StepTensors& tensors, const StepContext& context) {
  const at::Tensor& x = tensors.inputs[0];
  at::Tensor matrix = x.to(kernels::accumulation_type(x), false, cholesky.jitter != 0);
  if (cholesky.jitter != 0) matrix.diagonal(0, -2, -1).add_(cholesky.jitter);
  // LibTorch's triangle has its columns next to each other, so that the upper one of the transpose lies as a body's.
  const auto [upper, failed] = at::linalg_cholesky_ex(matrix.mT(), true);
  if (failed.numel() > 0 && failed.max().item<std::int64_t>() != 0)
    throw Error(ExitCode::bad_data, "body: " + context.shape.text() + ": the leading " +
                                        std::to_string(failed.max().item<std::int64_t>()) +
                                        " rows of a matrix are not positive definite; add more to its diagonal");
  return {upper.mT().to(x.scalar_type())};
}

// dA = ½·(S + Sᵀ) of S = L⁻ᵀ·Φ(Lᵀ·dL)·L⁻¹, where Φ takes the lower triangle with half of its diagonal.
StepGradients backward(const Cholesky& /*cholesky*/, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  const at::Tensor triangle = wide(tensors.output);
  at::Tensor inner = at::matmul(triangle.mT(), at::tril(wide(dy)));
  inner.tril_().diagonal(0, -2, -1).mul_(0.5);
  inner = solved(triangle, inner, true);
  // S·L = L⁻ᵀ·Φ: of the transposes, Lᵀ·Sᵀ.
  inner = solved(triangle, inner.mT(), true);
  at::Tensor symmetric = inner.mT().clone(at::MemoryFormat::Contiguous);
  symmetric.add_(inner).mul_(0.5);
  return {typed_gradient(context, 0, dy, symmetric)};
}

StepResult forward(const TriangularSolve& /*solve*/, const StepTensors& tensors, const StepContext& context) {
  const at::Tensor triangle = wide(tensors.inputs[0]);
  const at::Tensor made = solved(triangle, columns_of(tensors.inputs[1], triangle), false);
  return {made.contiguous()
              .view(extents_of(context.shape, context.shape.output().axes))
              .to(tensors.inputs[1].scalar_type())};
}

// dB = L⁻ᵀ·dX, and dL the lower triangle of −dB·Xᵀ.
StepGradients backward(const TriangularSolve& /*solve*/, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  const StepShape& shape = context.shape;
  const at::Tensor triangle = wide(tensors.inputs[0]);
  const at::Tensor right = solved(triangle, columns_of(dy, triangle), true).contiguous();
  StepGradients gradients(2);
  if (shape.has_gradient(0)) {
    at::Tensor of_triangle = at::matmul(right, columns_of(tensors.output, triangle).mT());
    gradients[0] = typed_gradient(context, 0, dy, of_triangle.neg_().tril_());
  }
  if (shape.has_gradient(1))
    gradients[1] = typed_gradient(context, 1, dy, right.view(extents_of(shape, shape.input(1).axes)));
  return gradients;
}

StepResult forward(const Diagonal& /*diagonal*/, const StepTensors& tensors, const StepContext& /*context*/) {
  return {tensors.inputs[0].diagonal(0, -2, -1).clone(at::MemoryFormat::Contiguous)};
}

StepGradients backward(const Diagonal& /*diagonal*/, const at::Tensor& dy, const StepTensors& /*tensors*/,
                       const StepContext& context) {
  const at::Tensor dx = at::zeros(extents_of(context.shape, context.shape.input(0).axes),
                                  dy.options().dtype(gradient_type(context, 0, dy)));
  dx.diagonal(0, -2, -1).copy_(dy);
  return {dx};
}

}  // namespace llmtrain::body
