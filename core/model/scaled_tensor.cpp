// SPDX-License-Identifier: Apache-2.0
#include "core/model/scaled_tensor.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace llmtrain {
namespace {

// What the operand is multiplied by apart from what it is without fp16.
float factor_of(Fp8Operand operand, const MicroBatch& micro) {
  return operand == Fp8Operand::output_gradient ? static_cast<float>(micro.backward_scale) : 1;
}

}  // namespace

Fp8Scaling Fp8Scaling::of(std::size_t product) const {
  Fp8Scaling scaling = *this;
  scaling.product_ = product;
  return scaling;
}

bool Fp8Scaling::applies_to(const MicroBatch& micro) const {
  return micro.fp8_history == nullptr || !micro.fp8_history->has_fallen_back(product_);
}

at::Tensor Fp8Scaling::scales(std::initializer_list<Operand> operands, const MicroBatch& micro) const {
  std::vector<at::Tensor> own;
  for (const Operand& operand : operands) own.push_back(kernels::largest_magnitude(operand.values));
  const at::Tensor maxima = at::cat(own);
  if (const auto known = delayed(operands, maxima, micro)) return *known;
  if (tensor_ != nullptr && tensor_->ranks() > 1) tensor_->largest(maxima);
  // A rank that has whole sequences runs on its own (generation).
  if (context_ != nullptr && !micro.part.is_whole()) context_->largest(maxima);
  return kernels::fp8_scale(maxima, fp8_format(operands.begin()->what));
}

// The loss scale is a power of two and changes from step to step: histories are of gradients without it.
std::optional<at::Tensor> Fp8Scaling::delayed(std::initializer_list<Operand> operands, const at::Tensor& maxima,
                                              const MicroBatch& micro) const {
  if (micro.fp8_history == nullptr) return std::nullopt;
  at::Tensor scales = at::empty_like(maxima);
  const auto* largest = maxima.const_data_ptr<float>();
  auto* next = scales.mutable_data_ptr<float>();
  bool are_known = true;
  for (const Operand& operand : operands) {
    const float factor = factor_of(operand.what, micro);
    micro.fp8_history->note(product_, operand.what, *largest / factor);
    const float scale = micro.fp8_history->scale(product_, operand.what);
    are_known = are_known && scale > 0;
    // What is not finite would saturate; it must show instead, wherever its payload is multiplied.
    *next++ = std::isfinite(*largest++) ? scale / factor : std::numeric_limits<float>::quiet_NaN();
  }
  return are_known ? std::optional(scales) : std::nullopt;
}

}  // namespace llmtrain
