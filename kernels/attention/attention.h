// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/random/dropout.h"
#include "kernels/sequence_part.h"

namespace llmtrain::kernels {

// Causal self-attention over sequences, grouped queries allowed (Ainslie et al., arXiv 2305.13245).
// query is a view [B, S_q, heads, D]; key and value [B, S, kv_heads, D]; head h reads kv head h / (heads / kv_heads).
// The last axis is contiguous. Scores are scaled by 1/√D. Keys and values are those of the whole sequence; the queries
// may be a part of it, and each sees the keys up to its own position.
enum class AttentionMethod {
  flash,  // never holds the S × S matrix (Dao et al., arXiv 2205.14135)
  math,   // holds probabilities [B, heads, S, S]; the only method with dropout
};

struct AttentionSetting {
  AttentionMethod method = AttentionMethod::flash;
  Dropout dropout{};       // of the probabilities, elements of [all B, heads, S, S]; none with flash
  SequencePart queries{};  // their positions
};

struct AttentionOutput {
  at::Tensor out;         // [B, S_q, heads, D], contiguous
  at::Tensor statistics;  // flash: log-sum-exp [B, heads, S_q]; math: probabilities [B, heads, S_q, S] before dropout
};

struct AttentionGradients {
  at::Tensor query, key, value;  // shaped as the inputs; of keys and values only what these queries contribute
};

AttentionOutput attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const AttentionSetting& setting);

AttentionGradients attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value, const AttentionOutput& saved,
                                      const AttentionSetting& setting);

}  // namespace llmtrain::kernels
