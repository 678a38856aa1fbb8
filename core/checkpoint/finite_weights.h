// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "core/checkpoint/checkpoint.h"

namespace llmtrain {

// The largest absolute value of numbers of a safetensors dtype, which need not be aligned; NaN where one is. None for
// dtypes other than F32, BF16 and F16.
std::optional<float> largest_magnitude(std::string_view dtype, std::span<const std::byte> values);

// Throws Error(bad_data) that names a weight, rounded or master, with a value that is not finite: no training leads
// away from it, so its checkpoint would only displace others. Reads each weight once.
void require_finite_weights(std::span<const TensorSlice> slices);

}  // namespace llmtrain
