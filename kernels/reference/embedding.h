// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/embedding.h"

// The operations of kernels/embedding.h with LibTorch's operators: any dtype, any device.
namespace llmtrain::kernels::reference {

at::Tensor embedding_forward(const at::Tensor& tokens, const at::Tensor& table,
                             const std::optional<at::Tensor>& positions, std::int64_t sequence_length);
void embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, at::Tensor& dtable,
                        std::optional<at::Tensor> dpositions, std::int64_t sequence_length);

}  // namespace llmtrain::kernels::reference
