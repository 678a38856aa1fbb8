// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/random/stochastic_rounding.h"

namespace llmtrain::kernels {

// AdamW (Loshchilov and Hutter, arXiv 1711.05101) with PyTorch's order of operations.
struct AdamwStep {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  double gradient_scale = 1;  // multiplies every gradient first: the clipping coefficient
  std::int64_t step = 1;      // counts from 1, for the bias corrections
};

struct AdamwState {
  at::Tensor weights;  // [n] fp32 (float64 in tests): the master copy
  at::Tensor m;        // [n], as weights
  at::Tensor v;        // [n], as weights
};

// Runs of elements, such as tensors, of which those that decay and others alternate.
struct DecayRuns {
  bool first_decays = true;
  std::vector<std::int64_t> changes;  // where each run but the first begins; ascending
};

// One pass over flat, contiguous memory; updates the state in place. `gradients` [n] is of any float dtype.
// `compute_weights` [n], when given, receives the rounded new weights. What does not decay has weight decay 0 in
// `step`'s place. Temporary memory does not grow with n.
void adamw_(AdamwState& state, const at::Tensor& gradients, const AdamwStep& step,
            const std::optional<at::Tensor>& compute_weights, const DecayRuns& runs = {});

// The state of elements of one tensor in small types, value = payload / scale, as in FP8-LM (Peng et al., arXiv
// 2310.18313, section 2.2): the weights, and both moments or neither of them. All tensors are on one device; scales are
// powers of two, fp32 [1].
struct ScaledAdamwState {
  struct Array {
    at::Tensor payload;
    at::Tensor scale;
  };
  Array weights;    // [n] fp16
  Array m;          // [n] E4M3, or fp32 with scale 1
  Array v;          // [n] fp16, or as m fp32
  Array gradients;  // [n] E4M3 or fp32; not changed
};

// A tensor among several that make a step at once.
struct ScaledAdamwTensor {
  ScaledAdamwState state;
  bool decays = true;  // else its weight decay is 0 in the step's place
  at::Tensor numbers;  // fp32 [3] without gaps, of weights, m and v, on the state's device
  // Rounds what is stored in small types at random, so that its mean is the value; none: to nearest.
  std::optional<StochasticRounding> rounding = std::nullopt;
};

// The magnitudes that the step leaves, for the choice of their scales: `numbers` of each tensor become the largest of
// them and of themselves, which are at least 0; NaN where a new value is. The host waits for nothing. All tensors are
// on one device.
void scaled_adamw_largest(std::span<const ScaledAdamwTensor> tensors, const AdamwStep& step);
// The same step; stores payload = value · the scale in `numbers`: m saturates, and v is never rounded from above 0 to
// 0, unless they are fp32, whose scales stay 1. The caller keeps `numbers` as the state's scales.
void scaled_adamw_(std::span<const ScaledAdamwTensor> tensors, const AdamwStep& step);

}  // namespace llmtrain::kernels
