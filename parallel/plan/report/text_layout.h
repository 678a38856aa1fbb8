// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain {

// Text in columns of a terminal. A code point of UTF-8 counts as one column.

std::size_t columns(std::string_view text);

// At most `width` columns; what is cut ends in "…".
std::string clipped(std::string_view text, std::size_t width);

// Exactly `width` columns, filled with spaces behind or in front; longer text is clipped.
std::string left_aligned(std::string_view text, std::size_t width);
std::string right_aligned(std::string_view text, std::size_t width);

// A bar of block elements, in steps of an eighth of a column: `fraction` (0 to 1, else the nearer end) of `width`. What
// is more than nothing shows at least one eighth.
std::string bar(double fraction, std::size_t width);

// Lines of at most `width` columns (1 or more), broken at spaces, and inside a word only where it is longer than a
// line.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace llmtrain
