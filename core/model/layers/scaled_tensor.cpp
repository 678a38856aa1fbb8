// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/scaled_tensor.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <utility>
#include <vector>

#include "kernels/separate_rows.h"

namespace llmtrain {
namespace {

// What the operand is multiplied by apart from what it is without fp16.
float factor_of(Fp8Operand operand, const PassContext& pass) {
  return operand == Fp8Operand::output_gradient ? static_cast<float>(pass.backward_scale) : 1;
}

}  // namespace

Fp8Scaling Fp8Scaling::of(std::size_t product) const {
  Fp8Scaling scaling = *this;
  scaling.product_ = product;
  return scaling;
}

at::Tensor Fp8Scaling::current(std::initializer_list<Operand> operands, const PassContext& pass) const {
  std::vector<at::Tensor> own;
  for (const Operand& operand : operands) {
    own.push_back(kernels::largest_magnitude(operand.values));
    if (pass.recorders.fp8_history != nullptr) note(operand.what, own.back(), pass);
  }
  const at::Tensor maxima = at::cat(own);
  if (tensor_ != nullptr && tensor_->ranks() > 1) tensor_->largest(maxima);
  // In prediction a rank has whole sequences and runs on its own.
  if (context_ != nullptr && pass.mode != PassMode::prediction) context_->largest(maxima);
  return kernels::fp8_scale(maxima, fp8_format(operands.begin()->what));
}

bool Fp8Scaling::separates_rows_of(const at::Tensor& x, const PassContext& pass) const {
  return kernels::separates_rows() && x.is_cpu() && pass.recorders.fp8_history == nullptr &&
         (tensor_ == nullptr || tensor_->ranks() == 1);
}

at::Tensor Fp8Scaling::row_scales(const at::Tensor& x) {
  return kernels::fp8_scale(kernels::largest_row_magnitudes(x), fp8_format(Fp8Operand::input));
}

// The loss scale is a power of two and changes from step to step: histories are of gradients without it.
at::Tensor Fp8Scaling::delayed_scale(Fp8Operand operand, const PassContext& pass, const at::Device& device) const {
  const float factor = factor_of(operand, pass);
  if (device.is_cpu()) return at::full({1}, pass.recorders.fp8_history->scale(product_, operand) / factor, at::kFloat);
  const at::Tensor scale = pass.recorders.fp8_history->scale_on(device, product_, operand);
  return factor == 1 ? scale : scale.div(factor);
}

std::optional<at::Tensor> Fp8Scaling::delayed(std::initializer_list<Fp8Operand> operands, const PassContext& pass,
                                              const at::Device& device) const {
  if (pass.recorders.fp8_history == nullptr) return std::nullopt;
  std::vector<at::Tensor> scales;
  for (const Fp8Operand operand : operands) {
    if (pass.recorders.fp8_history->scale(product_, operand) == 0) return std::nullopt;
    scales.push_back(delayed_scale(operand, pass, device));
  }
  return scales.size() == 1 ? scales.front() : at::cat(scales);
}

void Fp8Scaling::note(Fp8Operand operand, const at::Tensor& largest, const PassContext& pass) const {
  const float factor = factor_of(operand, pass);
  if (largest.is_cpu()) {
    pass.recorders.fp8_history->note(product_, operand, *largest.const_data_ptr<float>() / factor);
  } else {
    pass.recorders.fp8_history->note(product_, operand, factor == 1 ? largest : largest.div(factor));
  }
}

ScaledTensor Fp8Scaling::cast(const Operand& operand, const at::Tensor& scale, const PassContext& pass,
                              CastWays ways) const {
  const kernels::Fp8Format format = fp8_format(operand.what);
  kernels::ShownFp8 cast = ways == CastWays::both ? kernels::cast_and_show_both_ways(operand.values, scale, format)
                                                  : kernels::cast_and_show(operand.values, scale, format);
  note(operand.what, cast.largest, pass);
  return {std::move(cast.values), std::move(cast.scale), std::move(cast.turned)};
}

ScaledTensor Fp8Scaling::cast(const kernels::StoredMatrix& weight, const at::Tensor& scale,
                              const PassContext& pass) const {
  kernels::ShownFp8 cast = kernels::cast_and_show(weight, scale);
  note(Fp8Operand::weight, cast.largest, pass);
  return {std::move(cast.values), std::move(cast.scale)};
}

}  // namespace llmtrain
