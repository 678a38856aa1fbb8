// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>

namespace llmtrain {

// Element type of an array in memory, in a message or in a file. float8_e4m3 is the finite variant: it has NaN but no
// infinity.
enum class ElementType { float32, bfloat16, float16, float8_e4m3, float8_e5m2, int32, int64, uint8 };

// Bytes per element; element_bytes() for sizes that are multiplied in floating point.
constexpr std::int64_t element_size(ElementType type) {
  constexpr std::array<std::int64_t, 8> sizes{4, 2, 2, 1, 1, 4, 8, 1};
  return sizes[static_cast<std::size_t>(type)];
}
constexpr double element_bytes(ElementType type) { return static_cast<double>(element_size(type)); }

constexpr std::string_view element_name(ElementType type) {
  constexpr std::array<std::string_view, 8> names{"fp32",     "bf16",  "fp16",  "fp8_e4m3",
                                                  "fp8_e5m2", "int32", "int64", "uint8"};
  return names[static_cast<std::size_t>(type)];
}

// The number of elements of a tensor of this shape.
constexpr std::int64_t element_count(std::span<const std::int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace llmtrain
