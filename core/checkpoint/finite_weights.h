// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/checkpoint/checkpoint.h"

namespace llmtrain {

// Throws Error(bad_data) that names a weight, rounded or master, with a value that is not finite: no training leads
// away from it, so its checkpoint would only displace others. Reads each weight once.
void require_finite_weights(std::span<const TensorSlice> slices);

}  // namespace llmtrain
