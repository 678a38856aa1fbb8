// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/muon.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {

bool has_cuda_muon(const at::Tensor& fp32, const at::Tensor& other) {
  return has_kernels(fp32) && fp32.scalar_type() == at::kFloat && fp32.is_contiguous() && element_of(other) &&
         other.is_contiguous() && other.device() == fp32.device();
}

void cuda_muon_mean(const at::Tensor& mean, const at::Tensor& gradients, const MuonMean& how,
                    const at::Tensor& result) {
  const c10::DeviceGuard guard(mean.device());
  kernel_table()->muon->mean({.mean = mean.const_data_ptr<float>(),
                              .gradient = *element_of(gradients),
                              .gradients = gradients.const_data_ptr(),
                              .result = result.mutable_data_ptr<float>(),
                              .n = mean.numel(),
                              .momentum = static_cast<float>(how.momentum),
                              .share = static_cast<float>((1 - how.momentum) * how.gradient_scale)},
                             stream_of(mean));
}

void cuda_muon_step_(const at::Tensor& weights, const at::Tensor& values, const MuonStep& step,
                     const std::optional<at::Tensor>& compute_weights) {
  const c10::DeviceGuard guard(weights.device());
  MuonStepArguments arguments{.weights = weights.mutable_data_ptr<float>(),
                              .values = values.const_data_ptr<float>(),
                              .n = weights.numel(),
                              .decay = static_cast<float>(1 - step.learning_rate * step.weight_decay),
                              .learning_rate = static_cast<float>(step.learning_rate)};
  if (compute_weights) {
    arguments.compute_weight = *element_of(*compute_weights);
    arguments.compute_weights = compute_weights->mutable_data_ptr();
  }
  kernel_table()->muon->step(arguments, stream_of(weights));
}

at::Tensor cuda_muon_normalized(const at::Tensor& matrix, const at::Tensor& sum_of_squares, double smallest_norm,
                                at::ScalarType to) {
  const c10::DeviceGuard guard(matrix.device());
  at::Tensor result = at::empty(matrix.sizes(), matrix.options().dtype(to));
  kernel_table()->muon->normalize({.matrix = matrix.const_data_ptr<float>(),
                                   .sum_of_squares = sum_of_squares.const_data_ptr<double>(),
                                   .element = *element_of(result),
                                   .result = result.mutable_data_ptr(),
                                   .n = matrix.numel(),
                                   .smallest_norm = static_cast<float>(smallest_norm)},
                                  stream_of(matrix));
  return result;
}

void cuda_muon_polynomial_(const at::Tensor& square, const at::Tensor& gram, const MuonPolynomial& polynomial) {
  const c10::DeviceGuard guard(square.device());
  kernel_table()->muon->polynomial(
      {.element = *element_of(square),
       .gram = gram.const_data_ptr(),
       .square = square.mutable_data_ptr(),
       .side = square.size(0),
       .coefficients = {static_cast<float>(polynomial.unit), static_cast<float>(polynomial.gram),
                        static_cast<float>(polynomial.square)}},
      stream_of(square));
}

at::Tensor cuda_muon_scaled(const at::Tensor& x, double scale) {
  const c10::DeviceGuard guard(x.device());
  at::Tensor result = at::empty(x.sizes(), x.options().dtype(at::kFloat));
  kernel_table()->muon->scale({.element = *element_of(x),
                               .x = x.const_data_ptr(),
                               .result = result.mutable_data_ptr<float>(),
                               .n = x.numel(),
                               .scale = static_cast<float>(scale)},
                              stream_of(x));
  return result;
}

}  // namespace llmtrain::kernels
