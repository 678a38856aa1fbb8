// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace llmtrain {

// Text escaped for use between tags and in a quoted attribute: markup is escaped, and malformed UTF-8 and control
// characters become U+FFFD.
std::string html_text(std::string_view text);

// A length for SVG: at most two decimals, no trailing zeros.
std::string svg_number(double value);

}  // namespace llmtrain
