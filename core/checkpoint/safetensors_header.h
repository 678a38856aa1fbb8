// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/checkpoint/safetensors.h"

namespace llmtrain {

inline constexpr std::size_t safetensors_header_limit = 100'000'000;  // bytes, the reference implementation's
inline constexpr std::size_t safetensors_tensor_limit = 262'144;
inline constexpr std::size_t safetensors_rank_limit = 64;

// The entries of a JSON header, in its order. The grammar is fixed, so the parser does not recurse, and it allocates
// only the entries. Offsets are not checked against shapes. Throws Error(bad_data) that names `file`.
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view header, const std::string& file);

// Throws Error(bad_data) that states what is wrong with `file` and what to do.
[[noreturn]] void refuse_safetensors(const std::string& file, const std::string& what);

}  // namespace llmtrain
