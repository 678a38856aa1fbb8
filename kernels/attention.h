// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/dropout.h"

namespace llmtrain::kernels {

// Causal self-attention over sequences, grouped queries allowed (Ainslie et al., arXiv 2305.13245).
// query is a view [B, S, heads, D]; key and value [B, S, kv_heads, D]; head h reads kv head h / (heads / kv_heads).
// The last axis is contiguous. Scores are scaled by 1/√D.
enum class AttentionMethod {
  flash,  // never holds the S × S matrix (Dao et al., arXiv 2205.14135)
  math,   // holds probabilities [B, heads, S, S]; the only method with dropout
};

struct AttentionOutput {
  at::Tensor out;         // [B, S, heads, D], contiguous
  at::Tensor statistics;  // flash: log-sum-exp [B, heads, S]; math: probabilities before dropout
};

struct AttentionGradients {
  at::Tensor query, key, value;  // shaped as the inputs
};

// `dropout` of probability 0 is none; with flash it must be none. Dropout masks elements of [all B, heads, S, S].
AttentionOutput attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  AttentionMethod method, const Dropout& dropout);

AttentionGradients attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value, const AttentionOutput& saved, AttentionMethod method,
                                      const Dropout& dropout);

}  // namespace llmtrain::kernels
