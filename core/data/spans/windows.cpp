// SPDX-License-Identifier: Apache-2.0
#include "core/data/spans/windows.h"

#include <algorithm>

namespace llmtrain {

std::vector<TokenRun> windows_of(std::int64_t tokens, std::int64_t room, std::int64_t overlap) {
  std::vector<TokenRun> windows;
  for (std::int64_t begin = 0; windows.empty() || windows.back().end < tokens; begin += room - overlap)
    windows.push_back({begin, std::min(tokens, begin + room)});
  return windows;
}

std::optional<TokenRun> answer_in(const TokenRun& window, std::span<const TextPlace> places, const TextPlace& answer) {
  const auto place = [&](std::int64_t token) { return places[static_cast<std::size_t>(token)]; };
  TokenRun found = window;
  if (place(window.begin).begin > answer.begin || place(window.end - 1).end < answer.end) return std::nullopt;
  while (found.begin + 1 < window.end && place(found.begin + 1).begin <= answer.begin) ++found.begin;
  // Tokens may share their places.
  while (found.end - 1 > found.begin && place(found.end - 2).end >= answer.end) --found.end;
  return found;
}

}  // namespace llmtrain
