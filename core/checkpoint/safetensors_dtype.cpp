// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/safetensors_dtype.h"

#include <algorithm>

#include "core/checkpoint/safetensors.h"

namespace llmtrain {

std::optional<std::size_t> safetensors_order(std::string_view dtype) {
  const auto found = std::find_if(safetensors_dtypes.begin(), safetensors_dtypes.end(),
                                  [dtype](const SafetensorsDtype& known) { return known.name == dtype; });
  if (found == safetensors_dtypes.end()) return std::nullopt;
  return static_cast<std::size_t>(found - safetensors_dtypes.begin());
}

std::optional<std::int64_t> safetensors_bits(std::string_view dtype) {
  const auto order = safetensors_order(dtype);
  if (!order) return std::nullopt;
  return safetensors_dtypes[*order].bits;
}

std::optional<std::int64_t> safetensors_bytes(std::string_view dtype, std::span<const std::int64_t> shape) {
  const auto bits = safetensors_bits(dtype);
  if (!bits) return std::nullopt;
  std::int64_t total = 1;
  for (const std::int64_t dimension : shape)
    // Shapes come from files: a product that wraps could match a small tensor's bytes.
    if (dimension < 0 || __builtin_mul_overflow(total, dimension, &total)) return std::nullopt;
  if (__builtin_mul_overflow(total, *bits, &total) || total % 8 != 0) return std::nullopt;
  return total / 8;
}

}  // namespace llmtrain
