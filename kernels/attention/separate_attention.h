// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.h"

namespace llmtrain::kernels {

// Causal attention on the CPU in which each query is summed alone, in the order of its keys, so that its bits depend on
// neither the queries beside it nor on what comes after it: those of cached_attention() of a single token. For
// SeparateRows, of calls without documents and without dropout.
bool has_separate_attention(const at::Tensor& query, const at::Tensor& value, const AttentionCall& call);

// With the statistics of the call's method, sinks included.
AttentionOutput separate_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                           const AttentionCall& call);

}  // namespace llmtrain::kernels
