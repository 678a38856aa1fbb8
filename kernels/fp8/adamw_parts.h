// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "kernels/adamw.h"
#include "kernels/vector/adamw.h"
#include "kernels/vector/level.h"

// What the steps of AdamW over fp32 states and over states in small types have in common.
namespace llmtrain::kernels {

// Elements per thread below which starting another thread costs more than it saves.
constexpr std::int64_t weights_per_thread = 16384;

inline bool is_flat(const at::Tensor& x, at::ScalarType type) {
  return x.device().is_cpu() && x.scalar_type() == type && x.is_contiguous();
}

inline void check_size(const char* name, const at::Tensor& x, std::int64_t n) {
  if (x.numel() != n) {
    throw Error(ExitCode::internal_error, std::string("adamw: ") + name + " has " + std::to_string(x.numel()) +
                                              " elements; it must have as many as the weights, " + std::to_string(n));
  }
}

inline vector::AdamwKernels adamw_loops() {
  return vector::at_level([]<int level> { return vector::adamw_kernels_for<level>(); });
}

inline double bias_correction(double beta, std::int64_t step) { return 1 - std::pow(beta, static_cast<double>(step)); }

// Computed in float64 and rounded once: 1 − β^step and 1 − lr·decay are differences of nearly equal numbers in fp32.
inline AdamwConstants constants_of(const AdamwStep& step) {
  return {.gradient_scale = static_cast<float>(step.gradient_scale),
          .decay = static_cast<float>(1 - step.learning_rate * step.weight_decay),
          .one_minus_beta1 = static_cast<float>(1 - step.beta1),
          .beta2 = static_cast<float>(step.beta2),
          .one_minus_beta2 = static_cast<float>(1 - step.beta2),
          .root_of_correction = static_cast<float>(std::sqrt(bias_correction(step.beta2, step.step))),
          .eps = static_cast<float>(step.eps),
          .step_size = static_cast<float>(step.learning_rate / bias_correction(step.beta1, step.step))};
}

}  // namespace llmtrain::kernels
