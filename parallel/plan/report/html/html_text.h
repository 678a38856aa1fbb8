// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace llmtrain {

// Text as it may stand between tags and in a quoted attribute: markup is escaped, and what is no well-formed UTF-8 or a
// control character becomes U+FFFD.
std::string html_text(std::string_view text);

// A length for SVG: at most two decimals, no zeros behind.
std::string svg_number(double value);

}  // namespace llmtrain
