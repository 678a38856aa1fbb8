// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/device/cuda_interface.h"

namespace llmtrain {

// The loaded CUDA part.
struct CudaPart {
  const LlmtrainCudaInterface* interface = nullptr;
  std::string reason;  // why interface is null
};

// Loads it at the first call, once per process: it is never unloaded, because registered operators cannot be removed.
const CudaPart& cuda_part();

}  // namespace llmtrain
