// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace llmtrain {

struct SafetensorsDtype {
  std::string_view name;
  std::int64_t bits;
};

// By ascending alignment: a file holds its tensors in the opposite order, so that each is aligned to its elements.
inline constexpr std::array<SafetensorsDtype, 22> safetensors_dtypes{{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};

// The dtype's place in the table; none for an unknown name.
std::optional<std::size_t> safetensors_order(std::string_view dtype);

}  // namespace llmtrain
