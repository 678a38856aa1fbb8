// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <tuple>

namespace llmtrain::kernels {

// What the iteration makes of the singular values alone: the vectors on both sides stay.
inline at::Tensor orthogonalized(const at::Tensor& matrix, std::int64_t steps) {
  const at::Tensor wide = matrix.to(at::kDouble);
  auto [u, s, vh] = at::linalg_svd(wide, false);
  s = s / wide.norm().clamp_min(1e-7);
  for (std::int64_t step = 0; step < steps; ++step) s = s * 3.4445 - s.pow(3) * 4.7750 + s.pow(5) * 2.0315;
  return u.matmul(s.unsqueeze(1) * vh);
}

// The largest |got − want| ÷ the largest |want|.
inline double error_of_largest(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor exact = want.to(at::kDouble);
  return (got.to(at::kDouble) - exact).abs().max().item<double>() / exact.abs().max().item<double>();
}

}  // namespace llmtrain::kernels
