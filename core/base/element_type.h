// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace llmtrain {

// Element type of an array in memory, in a message or in a file. float8_e4m3 is the finite variant: it has NaN but no
// infinity.
enum class ElementType { float32, bfloat16, float16, float8_e4m3, float8_e5m2, int32, int64, uint8 };

// Bytes per element; element_bytes() for sizes that are multiplied in floating point.
std::int64_t element_size(ElementType type);
inline double element_bytes(ElementType type) { return static_cast<double>(element_size(type)); }

// "fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "int32", "int64", "uint8".
std::string_view element_name(ElementType type);

}  // namespace llmtrain
