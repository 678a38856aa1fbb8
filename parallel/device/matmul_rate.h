// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace llmtrain {

// FLOPs a second that this device reaches on one large square matrix product of this type, the best of a few tries: the
// roof that MFU is measured against. Takes some tens of milliseconds.
double measure_matmul_rate(const c10::Device& device, c10::ScalarType type);

}  // namespace llmtrain
