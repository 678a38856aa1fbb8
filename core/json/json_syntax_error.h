// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llmtrain {

// "line 3, column 7: …" in plain words. `position` counts the bytes that the parser has read, including the one that it
// rejected; `reason` is the parser's own message.
std::string describe_syntax_error(std::string_view text, std::size_t position, std::string_view reason);

}  // namespace llmtrain
