// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/sweep/axes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace llmtrain::app {
namespace {

// More lines than anybody reads, and minutes of planning.
constexpr std::size_t most_combinations = 4096;

Error bad_axis(const std::string& flag, const std::string& text, const std::string& problem) {
  return {ExitCode::bad_recipe,
          fmt::format("{} {}: {}; give a key and its values, as in parallel.tensor=1,2,4", flag, text, problem)};
}

// Splits at the commas that are not inside brackets, braces or quotes.
std::vector<std::string> values_of(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  bool is_quoted = false, is_escaped = false;
  for (const char letter : text) {
    if (letter == ',' && depth == 0 && !is_quoted) {
      values.emplace_back();
      continue;
    }
    values.back() += letter;
    if (letter == '"' && !is_escaped) is_quoted = !is_quoted;
    is_escaped = is_quoted && letter == '\\' && !is_escaped;
    if (is_quoted) continue;
    if (letter == '[' || letter == '{') ++depth;
    if (letter == ']' || letter == '}') --depth;
  }
  return values;
}

SweepAxis axis_of(const std::string& flag, const std::string& text) {
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0) throw bad_axis(flag, text, "there is no key before a \"=\"");
  SweepAxis axis{text.substr(0, sign), values_of(std::string_view(text).substr(sign + 1))};
  for (const std::string& value : axis.values) {
    if (value.empty()) throw bad_axis(flag, text, "a value is empty");
    if (std::ranges::count(axis.values, value) > 1) throw bad_axis(flag, text, fmt::format("{} is there twice", value));
  }
  return axis;
}

}  // namespace

std::vector<SweepAxis> axes_of(const std::string& flag, const std::vector<std::string>& texts) {
  std::vector<SweepAxis> axes;
  std::size_t combinations = 1;
  for (const std::string& text : texts) {
    axes.push_back(axis_of(flag, text));
    const auto same = [&](const SweepAxis& axis) { return axis.key == axes.back().key; };
    if (std::ranges::count_if(axes, same) > 1) throw bad_axis(flag, text, "the key has an axis already");
    combinations *= axes.back().values.size();
    if (combinations > most_combinations)
      throw Error(ExitCode::bad_recipe,
                  fmt::format("{}: more than {} combinations of values; give fewer values", flag, most_combinations));
  }
  return axes;
}

std::vector<std::vector<std::string>> combinations_of(const std::vector<SweepAxis>& axes) {
  std::vector<std::vector<std::string>> combinations(1);
  for (const SweepAxis& axis : axes) {
    std::vector<std::vector<std::string>> longer;
    for (const auto& combination : combinations) {
      for (const std::string& value : axis.values) {
        longer.push_back(combination);
        longer.back().push_back(value);
      }
    }
    combinations = std::move(longer);
  }
  return combinations;
}

}  // namespace llmtrain::app
