// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain::kernels {

// losses[t] = log Σ_v exp(logits[t, v]) − logits[t, targets[t]], fp32 (float64 for float64 logits). targets is int64
// [T]. Throws Error(bad_data) for a target outside [0, V), before anything is changed.
at::Tensor cross_entropy_forward(const at::Tensor& logits, const at::Tensor& targets);

// The same, and logits becomes its own gradient: scale·(softmax(logits) − one_hot(targets)), rounded to its dtype.
// One buffer, no fp32 copy: the caller passes a chunk of rows at a time.
at::Tensor cross_entropy_forward_backward_(at::Tensor& logits, const at::Tensor& targets, double scale);

}  // namespace llmtrain::kernels
