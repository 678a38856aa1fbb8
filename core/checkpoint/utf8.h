// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llmtrain {

// Whether the bytes are well-formed UTF-8 (Unicode 15, table 3-7: no overlong forms, no surrogates).
bool valid_utf8(std::string_view text);

// Appends a code point below 0x110000 that is no surrogate.
void append_utf8(std::string& text, std::uint32_t code_point);

// A text from outside as it may stand in a message: in quotation marks, control characters escaped, cut when long.
std::string quoted_text(std::string_view text);

}  // namespace llmtrain
