// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace llmtrain {

// FLOP/s that this device reaches in one large square matrix product of this type, the best of several tries: the peak
// that a run's MFU refers to. Takes about a tenth of a second; blocks.
double measure_matmul_rate(const c10::Device& device, c10::ScalarType type);

}  // namespace llmtrain
