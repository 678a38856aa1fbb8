// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain {

// Figures as texts and pages show them.

// Like format_duration() (core/base/units.h), but with three significant digits below ten seconds, the range of steps
// and their parts: "1.79s", "86.2ms", "512µs".
std::string duration_text(double seconds);

std::string bytes_text(double bytes);
std::string percent(double fraction);
// Names of enumerators, such as "data_parallel", for readers.
std::string with_spaces(std::string_view name);

enum class TextColour { off, on };
enum class Ink { plain, strong, good, notice, bad, memory };

// Colours text by ANSI escapes, which take no columns.
struct Paint {
  TextColour colour = TextColour::off;

  std::string operator()(Ink ink, std::string_view text) const;
};

// message_text() (core/base/printable.h) that leaves the escapes of Paint alone.
std::string painted_message(std::string_view text);

// Columns of what commands print where no terminal sets them, and the most that a page of sentences and figures takes.
constexpr std::size_t page_width = 100;

// How a text is printed: none of its lines is wider than `width` columns (60 or more).
struct TextStyle {
  TextColour colour = TextColour::off;
  std::size_t width = page_width;
};

// Text layout in terminal columns. A UTF-8 code point counts as one column.

std::size_t columns(std::string_view text);

// At most `width` columns; truncated text ends in "…".
std::string clipped(std::string_view text, std::size_t width);

// Exactly `width` columns, padded with spaces on the right or on the left; longer text is clipped.
std::string left_aligned(std::string_view text, std::size_t width);
std::string right_aligned(std::string_view text, std::size_t width);

// A bar of block elements, in steps of an eighth of a column: `fraction` (clamped to 0 … 1) of `width`. A positive
// fraction shows at least one eighth.
std::string bar(double fraction, std::size_t width);

// Lines of at most `width` columns (1 or more), broken at spaces, and inside a word only if it is longer than a line.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

// Those lines in one text, each with its newline.
std::string paragraph(std::string_view text, std::size_t width);

// Lines: `term`, and `text` in columns `indent` … `width`, beginning beside the term where that leaves two spaces
// between them, else below it. Each ends in a newline.
std::string described(std::string_view term, std::string_view text, std::size_t indent, std::size_t width);

}  // namespace llmtrain
