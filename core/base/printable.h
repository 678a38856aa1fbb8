// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace llmtrain {

// The text as it may go to a terminal: bytes that are no well-formed UTF-8 and control characters other than new line
// and tab become U+FFFD, one for each byte. A model that writes bytes writes anything.
std::string printable(std::string_view text);

}  // namespace llmtrain
