// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation.h"

// The operations of kernels/activation.h with LibTorch's operators: any dtype, any device.
namespace llmtrain::kernels::reference {

at::Tensor activation_forward(const at::Tensor& x, ActivationKind kind);
at::Tensor activation_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind);

}  // namespace llmtrain::kernels::reference
