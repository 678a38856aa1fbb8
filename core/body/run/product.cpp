// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"
#include "kernels/accumulation_type.h"
#include "kernels/gemm.h"

namespace llmtrain::body {
namespace {

using Axes = std::vector<AxisId>;

// The step as matrices: left [batch, rows, inner] · right [batch, columns, inner]ᵀ = [batch, rows, columns].
struct Matrices {
  Axes batch, rows, columns, inner;

  explicit Matrices(const StepShape& shape) {
    for (const AxisId axis : shape.input(0).axes) {
      const bool is_shared = shape.input_has(1, axis);
      (!shape.output_has(axis) ? inner : is_shared ? batch : rows).push_back(axis);
    }
    for (const AxisId axis : shape.input(1).axes)
      if (!shape.input_has(0, axis)) columns.push_back(axis);
  }
};

std::int64_t count_of(const StepShape& shape, const Axes& axes) {
  std::int64_t count = 1;
  for (const AxisId axis : axes) count *= shape.extent(axis);
  return count;
}

Axes together(const Axes& batch, const Axes& rows, const Axes& columns) {
  Axes all = batch;
  all.insert(all.end(), rows.begin(), rows.end());
  all.insert(all.end(), columns.begin(), columns.end());
  return all;
}

// A tensor as [batch, rows, columns], without batch [rows, columns]; copied where its axes lie otherwise.
at::Tensor matrix_of(const at::Tensor& x, const BodyTensor& tensor, const StepShape& shape, const Axes& batch,
                     const Axes& rows, const Axes& columns) {
  std::vector<std::int64_t> sizes{count_of(shape, rows), count_of(shape, columns)};
  if (!batch.empty()) sizes.insert(sizes.begin(), count_of(shape, batch));
  return in_order(x, tensor.axes, together(batch, rows, columns)).reshape(sizes).contiguous();
}

at::Tensor tensor_of(const at::Tensor& matrix, const BodyTensor& tensor, const StepShape& shape, const Axes& batch,
                     const Axes& rows, const Axes& columns) {
  const Axes order = together(batch, rows, columns);
  return in_order(matrix.view(extents_of(shape, order)), order, tensor.axes);
}

at::Tensor batched(const at::Tensor& left, const at::Tensor& right) {
  if (!kernels::is_widened(left)) return at::bmm(left, right);
  return at::bmm(kernels::widened(left), kernels::widened(right)).to(at::kHalf);
}

// Products without rows or columns have no elements, and those of nothing are zero: no kernel is asked.
bool is_empty(const at::Tensor& left, const at::Tensor& right) { return left.numel() == 0 || right.numel() == 0; }

at::Tensor matrix_product(const at::Tensor& left, const at::Tensor& right) {
  if (is_empty(left, right)) {
    std::vector<std::int64_t> sizes = left.sizes().vec();
    sizes.back() = right.size(-2);
    return at::zeros(sizes, left.options());
  }
  return left.dim() == 2 ? kernels::linear(left, right, {}) : batched(left, right.transpose(1, 2));
}

at::Tensor gradient_of_left(const at::Tensor& dy, const at::Tensor& right) {
  if (is_empty(dy, right)) {
    std::vector<std::int64_t> sizes = dy.sizes().vec();
    sizes.back() = right.size(-1);
    return at::zeros(sizes, dy.options());
  }
  return dy.dim() == 2 ? kernels::linear_backward_input(dy, right) : batched(dy, right);
}

at::Tensor gradient_of_right(const at::Tensor& dy, const at::Tensor& left, at::ScalarType type) {
  const auto options = dy.options().dtype(type);
  std::vector<std::int64_t> sizes = left.sizes().vec();
  sizes[sizes.size() - 2] = dy.size(-1);
  if (is_empty(dy, left)) return at::zeros(sizes, options);
  if (dy.dim() == 3) return batched(dy.transpose(1, 2), left).to(type);
  at::Tensor gradient = at::empty(sizes, options);
  kernels::linear_backward_weight(dy, left, gradient, kernels::Accumulation::overwrite);
  return gradient;
}

}  // namespace

StepResult forward(const Product& /*product*/, const StepTensors& tensors, const StepContext& context) {
  const StepShape& shape = context.shape;
  const Matrices as(shape);
  const at::Tensor left = matrix_of(tensors.inputs[0], shape.input(0), shape, as.batch, as.rows, as.inner);
  const at::Tensor right = matrix_of(tensors.inputs[1], shape.input(1), shape, as.batch, as.columns, as.inner);
  return {tensor_of(matrix_product(left, right), shape.output(), shape, as.batch, as.rows, as.columns)};
}

StepGradients backward(const Product& /*product*/, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  const StepShape& shape = context.shape;
  const Matrices as(shape);
  const at::Tensor gradient = matrix_of(dy, shape.output(), shape, as.batch, as.rows, as.columns);
  StepGradients result(2);
  if (shape.has_gradient(0)) {
    const at::Tensor right = matrix_of(tensors.inputs[1], shape.input(1), shape, as.batch, as.columns, as.inner);
    const at::Tensor left = gradient_of_left(gradient, right);
    result[0] = typed_gradient(context, 0, dy, tensor_of(left, shape.input(0), shape, as.batch, as.rows, as.inner));
  }
  if (shape.has_gradient(1)) {
    const at::Tensor left = matrix_of(tensors.inputs[0], shape.input(0), shape, as.batch, as.rows, as.inner);
    const at::Tensor right = gradient_of_right(gradient, left, gradient_type(context, 1, dy));
    result[1] = tensor_of(right, shape.input(1), shape, as.batch, as.columns, as.inner);
  }
  return result;
}

}  // namespace llmtrain::body
