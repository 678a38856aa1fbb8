// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ops/zeros.h>

#include <optional>

#include "kernels/adamw.h"

// Steps of one tensor over states in small types.
namespace llmtrain::kernels {

inline at::Tensor scaled_adamw_largest(const ScaledAdamwState& state, const AdamwStep& step) {
  const ScaledAdamwTensor tensor{.state = state,
                                 .numbers = at::zeros({3}, state.weights.payload.options().dtype(at::kFloat))};
  scaled_adamw_largest({&tensor, 1}, step);
  return tensor.numbers;
}

inline void scaled_adamw_(const ScaledAdamwState& state, const AdamwStep& step, const at::Tensor& next,
                          const std::optional<StochasticRounding>& rounding = std::nullopt) {
  const ScaledAdamwTensor tensor{.state = state, .numbers = next.contiguous(), .rounding = rounding};
  scaled_adamw_({&tensor, 1}, step);
}

}  // namespace llmtrain::kernels
