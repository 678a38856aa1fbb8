// SPDX-License-Identifier: Apache-2.0
#include "core/graph/marks/name_patterns.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>

#include "core/base/error.h"

namespace llmtrain {

bool matches(std::string_view pattern, std::string_view text) {
  // Where the last * is, and how far it reaches: a mismatch after it lets it reach one character further.
  std::size_t star = std::string_view::npos, reached = 0, at = 0, i = 0;
  while (i < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      reached = i;
    } else if (at < pattern.size() && pattern[at] == text[i]) {
      ++at;
      ++i;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      i = ++reached;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

bool NamePatterns::match(std::string_view name) {
  bool is_match = false;
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    if (std::ranges::none_of(meanings_[i], [&](const std::string& pattern) { return matches(pattern, name); }))
      continue;
    is_used_[i] = is_match = true;
  }
  return is_match;
}

void NamePatterns::require_used(std::string_view pointer, std::string_view what) const {
  for (std::size_t i = 0; i < patterns_.size(); ++i)
    if (!is_used_[i])
      throw Error(ExitCode::bad_recipe, fmt::format("{}/{}: \"{}\" matches no {}; must match names such as "
                                                    "\"layers.0.attention.query.weight\", with * for any text",
                                                    pointer, i, patterns_[i], what));
}

}  // namespace llmtrain
