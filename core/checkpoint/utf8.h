// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llmtrain {

// Whether the bytes are well-formed UTF-8 (Unicode 15, table 3-7: no overlong forms, no surrogates).
bool valid_utf8(std::string_view text);

// Appends a code point below 0x110000 that is not a surrogate.
void append_utf8(std::string& text, std::uint32_t code_point);

// An untrusted text as it may appear in a message: in quotation marks, control characters escaped, truncated when long.
std::string quoted_text(std::string_view text);

}  // namespace llmtrain
