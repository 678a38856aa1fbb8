// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llmtrain::test {

// A number as eight bytes, little endian.
inline std::string eight_bytes(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

// The bytes of a safetensors file, assembled by hand.
inline std::string safetensors_bytes_of(std::string_view header, std::string_view data = {}) {
  return eight_bytes(header.size()) + std::string(header) + std::string(data);
}

}  // namespace llmtrain::test
