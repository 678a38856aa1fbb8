// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hostile_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <random>

namespace llmtrain::test {
namespace {

constexpr std::array<std::string_view, 44> pieces{
    "<script>alert(1)</script>", "</script>", "</style>", "<!--", "-->", "<img src=x onerror=alert(1)>", "\"><b>",
    "'><i>", "\" onclick=\"alert(1)", "&lt;", "&#60;b&#62;", "{}", "{0}", "]]>", "</pre></svg>", "\\u003cb>", "\"", "'",
    "\\",
    // Colours, the cursor, the title, the clipboard; in seven bits, in eight, and as characters of UTF-8.
    "\x1b[31m", "\x1b[2J", "\x1b]0;title\x07", "\x1b]52;c;eA==\x1b\\",
    "\x9b"
    "31m",
    "\xC2\x9B"
    "31m",
    "\xC2\x9D", "\r", "\b\b", "\x7f", "\x0e", "\u202e", "\u2066", "\u2069", "\u200e", "\u200f", "\u061c", "\xff",
    "\xC3", "\xED\xA0\x80", "día", "日本語", "עברית", "کتاب‌ها", "\U0001F600"};

bool is_letter(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; }

// The tag that begins at the start of the text, which ends at its first > outside of quotes.
std::string_view tag_in(std::string_view text) {
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quote == '\0' && text[i] == '>') return text.substr(0, i + 1);
    if (text[i] == quote) {
      quote = '\0';
    } else if (quote == '\0' && (text[i] == '"' || text[i] == '\'')) {
      quote = text[i];
    }
  }
  return text;
}

std::string without_values(std::string_view tag) {
  std::string text;
  char quote = '\0';
  for (const char letter : tag) {
    if (quote != '\0') {
      if (letter == quote) quote = '\0';
    } else if (letter == '"' || letter == '\'') {
      quote = letter;
    } else {
      text += letter;
    }
  }
  return text;
}

std::uint32_t code_point(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0x80) return first;
  const std::size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  std::uint32_t value = first & (0x3FU >> more);
  if (first < 0xC2 || first > 0xF4 || text.size() - at < more) return 0xFFFFFFFF;
  for (std::size_t i = 0; i < more; ++i) {
    const auto byte = static_cast<unsigned char>(text[at++]);
    if ((byte & 0xC0U) != 0x80) return 0xFFFFFFFF;
    value = value << 6 | (byte & 0x3FU);
  }
  return value;
}

}  // namespace

std::string hostile_text(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text = "x";
  for (std::uint64_t count = 1 + random() % 6; count > 0; --count) {
    text += pieces[random() % pieces.size()];
    if (random() % 4 == 0) text += static_cast<char>(random() % 255 + 1);
  }
  // A newline is the text's own where it is laid out, and no other byte could forge one.
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::vector<std::string> tags_of(std::string_view page) {
  std::vector<std::string> tags;
  for (std::size_t at = page.find('<'); at != page.npos && at + 1 < page.size(); at = page.find('<', at)) {
    if (!is_letter(page[at + 1]) && page[at + 1] != '/' && page[at + 1] != '!') {
      ++at;
      continue;
    }
    const std::string_view tag = tag_in(page.substr(at));
    tags.push_back(without_values(tag));
    at += tag.size();
    // What is in these is no markup up to their end tag.
    for (const std::string_view name : {"script", "style"})
      if (tag.substr(1).starts_with(name)) at = std::min(page.size(), page.find("</" + std::string(name), at));
  }
  return tags;
}

bool steers_terminal(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t c = code_point(text, at);
    const bool is_control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c <= 0x9F) || c == 0xFFFFFFFF;
    const bool is_direction =
        c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    if (is_control || is_direction) return true;
  }
  return false;
}

}  // namespace llmtrain::test
