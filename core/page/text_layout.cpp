// SPDX-License-Identifier: Apache-2.0
#include "core/page/text_layout.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/printable.h"
#include "core/base/units.h"

namespace llmtrain {
namespace {

// ANSI codes, in the order of Ink.
constexpr std::array<std::string_view, 6> ink_codes{"0", "1", "32", "33", "1;31", "36"};

// Continuation bytes of UTF-8 are 10xxxxxx.
bool starts_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

// Bytes of the first `width` columns.
std::size_t prefix_bytes(std::string_view text, std::size_t width) {
  std::size_t byte = 0;
  for (std::size_t column = 0; byte < text.size(); ++byte)
    if (starts_code_point(text[byte]) && column++ == width) break;
  return byte;
}

}  // namespace

std::string Paint::operator()(Ink ink, std::string_view text) const {
  if (colour == TextColour::off || ink == Ink::plain || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", ink_codes[static_cast<std::size_t>(ink)], text);
}

std::string painted_message(std::string_view text) {
  std::string message;
  while (!text.empty()) {
    const auto code = std::ranges::find_if(ink_codes, [&](std::string_view each) {
      return text.starts_with("\x1b[") && text.substr(2).starts_with(each) &&
             text.substr(2 + each.size()).starts_with('m');
    });
    const std::size_t painted = code == ink_codes.end() ? 0 : code->size() + 3;
    message += text.substr(0, painted);
    text.remove_prefix(painted);
    if (painted > 0) continue;
    const std::size_t plain = std::min(text.size(), text.find('\x1b', 1));
    message += message_text(text.substr(0, plain));
    text.remove_prefix(plain);
  }
  return message;
}

std::string duration_text(double seconds) {
  // Each bound is the value from which rounding would print one digit more than three; NaN goes to format_duration().
  if (!(seconds < 9.995)) return format_duration(seconds);
  if (seconds >= 0.9995) return fmt::format("{:.2f}s", seconds);
  if (seconds < 0.9995e-3) return fmt::format("{:.0f}µs", seconds * 1e6);
  const double milliseconds = seconds * 1e3;
  const int decimals = milliseconds < 9.995 ? 2 : milliseconds < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}ms", milliseconds, decimals);
}

std::string bytes_text(double bytes) { return format_bytes(std::llround(bytes)); }

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string with_spaces(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_code_point));
}

std::string clipped(std::string_view text, std::size_t width) {
  if (columns(text) <= width) return std::string(text);
  if (width == 0) return "";
  return std::string(text.substr(0, prefix_bytes(text, width - 1))) + "…";
}

std::string left_aligned(std::string_view text, std::size_t width) {
  std::string result = clipped(text, width);
  return result.append(width - columns(result), ' ');
}

std::string right_aligned(std::string_view text, std::size_t width) {
  const std::string result = clipped(text, width);
  return std::string(width - columns(result), ' ') + result;
}

std::string bar(double fraction, std::size_t width) {
  constexpr std::array<std::string_view, 8> eighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(fraction > 0)) return "";
  const double full = 8 * static_cast<double>(width);
  // At least one unit for a positive fraction: a small part should not look like none.
  const auto units = static_cast<std::size_t>(std::clamp(std::round(fraction * full), 1.0, full));
  std::string text;
  for (std::size_t i = 0; i < units / 8; ++i) text += "█";
  return text += eighths[units % 8];
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find_first_of(" \n\t"));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.empty()) continue;
    if (!line.empty() && columns(line) + 1 + columns(word) > width) {
      lines.push_back(line);
      line.clear();
    }
    // Words longer than a line, such as paths, are broken anywhere.
    for (; columns(word) > width; word.remove_prefix(prefix_bytes(word, width)))
      lines.emplace_back(word.substr(0, prefix_bytes(word, width)));
    if (!line.empty()) line += ' ';
    line += word;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

std::string paragraph(std::string_view text, std::size_t width) {
  std::string lines;
  for (const std::string& line : wrapped(text, width)) lines += line + '\n';
  return lines;
}

std::string described(std::string_view term, std::string_view text, std::size_t indent, std::size_t width) {
  const bool is_beside = columns(term) + 2 <= indent;
  std::string lines;
  std::size_t used = 0;
  if (is_beside) {
    lines = term;
    used = columns(term);
  } else if (columns(term) <= width) {
    lines.append(term.substr(0, term.find_last_not_of(' ') + 1)) += '\n';
  } else {
    const std::size_t leading = term.find_first_not_of(' ');
    for (const std::string& line : wrapped(term, width - leading)) lines += std::string(leading, ' ') + line + '\n';
  }
  for (const std::string& line : wrapped(text, width - indent)) {
    lines += std::string(indent - used, ' ') + line + '\n';
    used = 0;
  }
  if (!lines.ends_with('\n')) lines += '\n';
  return lines;
}

}  // namespace llmtrain
