// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace llmtrain::kernels {

// y[t] = table[tokens[t]] (+ positions[t mod sequence_length]); tokens is int64 [T], table [V, H], positions [P, H].
at::Tensor embedding_forward(const at::Tensor& tokens, const at::Tensor& table,
                             const std::optional<at::Tensor>& positions, std::int64_t sequence_length);

// dtable[tokens[t]] += dy[t] and dpositions likewise. Rows of equal index are added in the order of t, so the sum is
// bitwise reproducible for any number of threads. The gradients' dtype may be wider than dy's.
void embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, at::Tensor& dtable,
                        std::optional<at::Tensor> dpositions, std::int64_t sequence_length);

}  // namespace llmtrain::kernels
