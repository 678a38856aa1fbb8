// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/low_rank_adapter.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>

#include <optional>

#include "kernels/accumulation_type.h"
#include "kernels/gemm.h"

namespace llmtrain {
namespace {

// Below any length that is not that of zeros: a row of them stays one.
constexpr double least_square = 1e-30;

}  // namespace

at::Tensor LowRankAdapter::dropped(const at::Tensor& x, const Sequences& rows, const PassContext& pass) const {
  if (!drops(pass)) return x;
  kernels::Dropout dropout =
      dropout_at(pass, settings_.dropout, settings_.dropout_site, rows.whole_length() * settings_.input);
  const std::int64_t features = x.size(1);
  if (features != settings_.input) {
    // A tensor rank has some features of each token: one run per row, all ranks' features apart.
    dropout.first_element += a_.part().offset[1];
    dropout.run = features;
    dropout.stride = settings_.input;
  }
  return kernels::dropped_rows(x, dropout, {rows.part, rows.length, 0});
}

// ‖w + s·b·A‖² = ‖w‖² + s·b·(2·A·w + s·A·Aᵀ·b) of each row w of W and b of B, which needs no matrix of W's size.
at::Tensor LowRankAdapter::factors(const at::Tensor& weight) const {
  const at::ScalarType type = kernels::accumulation_type(weight);
  const at::Tensor matrix = rows_of(weight), a = a_.weight(), b = b_.weight().to(type);
  const at::Tensor along = kernels::linear(matrix, a, std::nullopt).to(type);
  const at::Tensor among = kernels::linear(a, a, std::nullopt).to(type);
  const at::Tensor squares = at::empty({2, features()}, matrix.options().dtype(type));
  squares[0].copy_(at::linalg_vector_norm(matrix, 2, {1}, false, type).square_());
  const at::Tensor added = at::mm(b, among).mul_(settings_.scale).add_(along, 2).mul_(b).sum(1);
  squares[1].copy_(squares[0]).add_(added, settings_.scale);
  magnitude_->input_ranks.sum_over_ranks(squares);
  squares.clamp_min_(least_square).sqrt_();
  const at::Tensor length = squares[1].clone();
  squares[0].add_(magnitude_->change.weight()).div_(length);
  squares[1].copy_(length.reciprocal_());
  return squares;
}

void LowRankAdapter::forward(const Operands& operands, const at::Tensor& y, const Sequences& rows,
                             const PassContext& pass) const {
  const auto& [x, weight, factors] = operands;
  const at::Tensor b = b_.weight(), own = columns_of(y), seen = dropped(x, rows, pass);
  const at::Tensor added = kernels::linear(kernels::linear(seen, a_.weight(), std::nullopt), b, std::nullopt);
  if (!has_magnitude()) {
    own.add_(added, settings_.scale);
  } else if (!drops(pass)) {
    own.add_(added, settings_.scale).mul_(factors[0]);
  } else {
    own.add_(added.mul_(factors[0]), settings_.scale);
    own.add_(kernels::linear(seen, rows_of(weight), std::nullopt).mul_(factors[0].sub(1)));
  }
}

void LowRankAdapter::scale_gradient(const at::Tensor& dy, const at::Tensor& factors) const {
  columns_of(dy).mul_(factors[0]);
}

void LowRankAdapter::backward(const at::Tensor& dy, const Operands& operands, const at::Tensor& dx,
                              const Sequences& rows, const PassContext& pass) const {
  const auto& [x, weight, factors] = operands;
  const at::Tensor a = a_.weight(), b = b_.weight();
  at::Tensor gradient = columns_of(dy).contiguous(), through_matrix;
  at::Tensor dhidden;
  {
    // Made again, from the mask's key and by products, beside keeping it for every layer and micro-batch.
    const at::Tensor seen = dropped(x, rows, pass);
    const at::Tensor hidden = kernels::linear(seen, a, std::nullopt);
    if (has_magnitude()) {
      at::Tensor made = kernels::linear(seen, rows_of(weight), std::nullopt);
      made.add_(kernels::linear(hidden, b, std::nullopt), settings_.scale);
      magnitude_->change.add_bias_gradient(made.mul_(gradient).mul_(factors[1]));
      if (drops(pass)) through_matrix = gradient * factors[0].sub(1).to(gradient.scalar_type());
      gradient = gradient.clone().mul_(factors[0]);
    }
    b_.add_weight_gradient(gradient, hidden.mul_(settings_.scale));
    dhidden = kernels::linear_backward_input(gradient, b).mul_(settings_.scale);
    a_.add_weight_gradient(dhidden, seen);
  }
  at::Tensor dseen = kernels::linear_backward_input(dhidden, a);
  if (through_matrix.defined()) dseen.add_(kernels::linear_backward_input(through_matrix, rows_of(weight)));
  dx.add_(dropped(dseen, rows, pass));
}

}  // namespace llmtrain
