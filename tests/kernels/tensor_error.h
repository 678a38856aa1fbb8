// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>

#include <cmath>

namespace llmtrain::kernels {

// The largest relative error of rounding to the nearest number of 24, 11 and 8 significant bits.
inline const double fp32_rounding = std::ldexp(1.0, -24);
inline const double fp16_rounding = std::ldexp(1.0, -11);
inline const double bf16_rounding = std::ldexp(1.0, -8);

// The largest |got − want| ÷ (1 + |want|): relative for large values, absolute for small ones.
inline double largest_error(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor exact = want.to(at::kDouble);
  return ((got.to(at::kDouble) - exact).abs() / (exact.abs() + 1)).max().item<double>();
}

// The largest |got − want| ÷ |want|.
inline double largest_relative_error(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor exact = want.to(at::kDouble);
  return ((got.to(at::kDouble) - exact).abs() / exact.abs()).max().item<double>();
}

// LibTorch seeds its default generator differently in each process; a test must see the same numbers each time.
inline at::Generator& test_generator() {
  static at::Generator generator = at::detail::createCPUGenerator(1234);
  return generator;
}

// Normal numbers.
inline at::Tensor random_tensor(at::IntArrayRef shape, at::ScalarType type) {
  return at::randn(shape, test_generator(), at::kFloat).to(type);
}

}  // namespace llmtrain::kernels
