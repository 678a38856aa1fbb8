// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.h"

namespace llmtrain::kernels {

// attention_forward() and attention_backward() of calls with documents, which are checked there: each document is a
// call of its own, except on a GPU, whose kernels take all documents of whole sequences at once.
AttentionOutput document_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                           const AttentionCall& call);
AttentionGradients document_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                               const at::Tensor& value, const AttentionOutput& saved,
                                               const AttentionCall& call);

}  // namespace llmtrain::kernels
