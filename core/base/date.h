// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>

namespace llmtrain {

// A day that is written as 2024-07-26; none for anything else.
inline std::optional<std::chrono::year_month_day> date_of(std::string_view text) {
  const auto number = [&](std::size_t begin, std::size_t digits) {
    int value = -1;
    const char* const end = text.data() + begin + digits;
    const auto read = std::from_chars(text.data() + begin, end, value);
    return read.ec == std::errc() && read.ptr == end ? value : -1;
  };
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const int year = number(0, 4), month = number(5, 2), day = number(8, 2);
  if (year < 0 || month < 0 || day < 0) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  return date.ok() ? std::optional(date) : std::nullopt;
}

}  // namespace llmtrain
