// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/runtime/calibration/stopwatch.h"

namespace llmtrain {

// RuntimeInterface::time_kernels(). Operators of kernels/ whose products are none, of the sizes of a model of about a
// billion parameters on a GPU, in bf16; on a CPU of fewer rows and in fp32. Throws Error(bad_recipe) for a device that
// is not there.
KernelTimes time_kernels(DeviceKind kind, Effort effort);

}  // namespace llmtrain
