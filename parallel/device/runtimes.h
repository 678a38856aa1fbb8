// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/device/device_runtime.h"

namespace llmtrain {

// The implementations behind runtime_of(). The second needs a CUDA part that has been loaded.
const DeviceRuntime& cpu_runtime();
const DeviceRuntime& cuda_runtime();

}  // namespace llmtrain
