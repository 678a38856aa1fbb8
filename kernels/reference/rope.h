// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rope.h"

// The rotation of kernels/rope.h with LibTorch's operators: any dtype, any device.
namespace llmtrain::kernels::reference {

void rope_(at::Tensor& x, const RopeTable& table, std::int64_t sequence_length, RopeDirection direction);

}  // namespace llmtrain::kernels::reference
