// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"
#include "kernels/accumulation_type.h"

namespace llmtrain::body {
namespace {

at::Tensor normed_rows(const at::Tensor& x) {
  const std::int64_t columns = x.size(-1);
  return x.contiguous().view({columns == 0 ? 0 : x.numel() / columns, columns});
}

kernels::NormParameters parameters_of(const Norm& norm, const StepTensors& tensors) {
  const bool is_layer = norm.kind == NormKind::layer;
  kernels::NormParameters parameters{is_layer ? kernels::NormMode::layer : kernels::NormMode::root_mean_square,
                                     tensors.inputs[1].contiguous(),
                                     {},
                                     norm.epsilon};
  if (tensors.inputs.size() > 2) parameters.bias = tensors.inputs[2].contiguous();
  return parameters;
}

// Weight and bias in the type of sums make the statistics, too.
StepResult group_norm(const Norm& norm, const StepTensors& tensors) {
  const at::Tensor x = tensors.inputs[0].contiguous();
  const auto type = kernels::accumulation_type(x);
  const std::int64_t samples = x.size(0), channels = x.size(1);
  const std::int64_t window = samples * channels == 0 ? 0 : x.numel() / (samples * channels);
  auto [y, mean, rstd] =
      at::native_group_norm(x, tensors.inputs[1].to(type).contiguous(), tensors.inputs[2].to(type).contiguous(),
                            samples, channels, window, norm.groups, norm.epsilon);
  return {y, {mean, rstd}};
}

StepGradients group_norm_gradients(const Norm& norm, const at::Tensor& dy, const StepTensors& tensors) {
  const at::Tensor x = tensors.inputs[0].contiguous();
  const std::int64_t samples = x.size(0), channels = x.size(1);
  const std::int64_t window = samples * channels == 0 ? 0 : x.numel() / (samples * channels);
  auto [dx, dweight, dbias] =
      at::native_group_norm_backward(dy.contiguous(), x, tensors.statistics[0], tensors.statistics[1],
                                     tensors.inputs[1].to(kernels::accumulation_type(x)).contiguous(), samples,
                                     channels, window, norm.groups, {true, true, true});
  return {dx, dweight, dbias};
}

// In the order in which kept() names them.
std::vector<at::Tensor> statistics_of(const Norm& norm, const kernels::NormOutput& output) {
  if (norm.kind == NormKind::layer) return {output.mean, output.rstd};
  return {output.rstd};
}

}  // namespace

StepResult forward(const Norm& norm, const StepTensors& tensors, const StepContext& /*context*/) {
  const at::Tensor& x = tensors.inputs[0];
  if (norm.kind == NormKind::group) return group_norm(norm, tensors);
  const kernels::NormParameters parameters = parameters_of(norm, tensors);
  if (tensors.statistics.empty()) {
    const kernels::NormOutput output = kernels::norm_forward(normed_rows(x), parameters);
    return {output.y.view(x.sizes()), statistics_of(norm, output)};
  }
  const at::Tensor mean = norm.kind == NormKind::layer ? tensors.statistics.front() : at::Tensor();
  const at::Tensor again = kernels::norm_recompute(normed_rows(x), mean, tensors.statistics.back(), parameters);
  return {again.view(x.sizes()), tensors.statistics};
}

StepGradients backward(const Norm& norm, const at::Tensor& dy, const StepTensors& tensors, const StepContext& context) {
  if (norm.kind == NormKind::group) return group_norm_gradients(norm, dy, tensors);
  const at::Tensor x = normed_rows(tensors.inputs[0]), gradient = normed_rows(dy);
  const at::Tensor mean = norm.kind == NormKind::layer ? tensors.statistics.front() : at::Tensor();
  const auto vector = [&](std::size_t place) {
    return at::empty({x.size(1)}, dy.options().dtype(gradient_type(context, place, dy)));
  };
  at::Tensor dx = at::zeros_like(x), dweight = vector(1);
  std::optional<at::Tensor> dbias;
  if (tensors.inputs.size() > 2) dbias = vector(2);
  kernels::norm_backward(gradient, x, mean, tensors.statistics.back(), parameters_of(norm, tensors), dx, dweight, dbias,
                         kernels::Accumulation::overwrite);
  StepGradients gradients{typed_gradient(context, 0, dy, dx.view(dy.sizes())), dweight};
  if (dbias) gradients.push_back(*dbias);
  return gradients;
}

}  // namespace llmtrain::body
