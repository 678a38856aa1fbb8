// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace llmtrain::kernels {

// What a device lacks for attention by cuDNN (AttentionCall::by_cudnn), as in "needs a GPU"; empty where it has it all.
std::string missing_for_cudnn_attention(const c10::Device& device);

}  // namespace llmtrain::kernels
