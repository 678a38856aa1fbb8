// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/norm.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {

// fp32 sums of up to 768 terms in at least four parts, then four roundings of values up to about 10.
inline const double fp32_tolerance = 40 * fp32_rounding;

struct NormCase {
  at::Tensor x;
  at::Tensor dy;
  NormParameters parameters;
};

struct NormGradients {
  at::Tensor dx;
  at::Tensor dweight;
  at::Tensor dbias;
};

inline NormCase make_norm_case(std::int64_t rows, std::int64_t width, NormMode mode, at::ScalarType type) {
  NormCase result{.x = random_tensor({rows, width}, type),
                  .dy = random_tensor({rows, width}, type),
                  .parameters = {.mode = mode, .weight = random_tensor({width}, type), .bias = {}, .eps = 1e-5}};
  if (mode == NormMode::layer) result.parameters.bias = random_tensor({width}, type);
  return result;
}

inline NormCase in_float64(const NormCase& original) {
  NormCase result = original;
  result.x = result.x.to(at::kDouble);
  result.dy = result.dy.to(at::kDouble);
  result.parameters.weight = result.parameters.weight.to(at::kDouble);
  if (result.parameters.bias) result.parameters.bias = result.parameters.bias->to(at::kDouble);
  return result;
}

inline NormGradients in_float64(const NormGradients& original) {
  return {original.dx.to(at::kDouble), original.dweight.to(at::kDouble), original.dbias.to(at::kDouble)};
}

// LibTorch's own norm of the case in float64.
inline at::Tensor exact_norm(const NormCase& original) {
  const NormCase wide = in_float64(original);
  const std::int64_t width = wide.x.size(-1);
  const NormParameters& p = wide.parameters;
  if (p.mode == NormMode::root_mean_square) return at::rms_norm(wide.x, {width}, p.weight, p.eps);
  return std::get<0>(at::native_layer_norm(wide.x, {width}, p.weight, p.bias, p.eps));
}

// The contents of the gradients before a backward: the residual's in dx, those of earlier micro-batches in the others.
inline NormGradients random_gradients(const NormCase& c, at::ScalarType parameter_type) {
  return {.dx = random_tensor(c.x.sizes(), c.x.scalar_type()),
          .dweight = random_tensor(c.parameters.weight.sizes(), parameter_type),
          .dbias = random_tensor(c.parameters.weight.sizes(), parameter_type)};
}

inline NormGradients zero_gradients(const NormCase& c) {
  return {.dx = at::zeros_like(c.x),
          .dweight = at::zeros_like(c.parameters.weight),
          .dbias = at::zeros_like(c.parameters.weight)};
}

// `before` and the gradients of the case.
inline NormGradients accumulated(const NormCase& c, const NormGradients& before) {
  NormGradients gradients{before.dx.clone(), before.dweight.clone(), before.dbias.clone()};
  const NormOutput saved = norm_forward(c.x, c.parameters);
  std::optional<at::Tensor> dbias;
  if (c.parameters.bias) dbias = gradients.dbias;
  norm_backward(c.dy, c.x, saved.mean, saved.rstd, c.parameters, gradients.dx, gradients.dweight, dbias,
                Accumulation::add);
  return gradients;
}

}  // namespace llmtrain::kernels
