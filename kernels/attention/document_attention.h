// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/attention/attention.h"
#include "kernels/sequence_part.h"

namespace llmtrain::kernels {

// Causal self-attention within documents that are packed back to back: the rows of all sequences count as one list, of
// which each document is a run, and a query sees the keys of its own document alone. The work is that of the documents'
// lengths, not of the sequences'. The documents cover all rows in order; none reaches over the end of a sequence.
// Shapes, methods and errors are attention.h's, but for the saved statistics, which hold each document's one after
// another, and for dropout and context parallelism, which the setting must not have.
AttentionOutput document_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                           AttentionMethod method, std::span<const PositionRun> documents);

AttentionGradients document_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                               const at::Tensor& value, const AttentionOutput& saved,
                                               AttentionMethod method, std::span<const PositionRun> documents);

}  // namespace llmtrain::kernels
