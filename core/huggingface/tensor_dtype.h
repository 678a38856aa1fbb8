// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>

namespace llmtrain {

// The tensor type of weights that safetensors calls "F32", "BF16" or "F16"; Undefined for other names.
at::ScalarType tensor_type(std::string_view dtype);

// The inverse. Throws Error(internal_error) for other types.
std::string dtype_name(at::ScalarType type);

}  // namespace llmtrain
