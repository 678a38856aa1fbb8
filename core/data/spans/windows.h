// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/data/spans/placed_encoder.h"

namespace llmtrain {

// Consecutive tokens, from `begin` to before `end`.
struct TokenRun {
  std::int64_t begin = 0, end = 0;

  bool operator==(const TokenRun&) const = default;
};

// The windows in which a text of so many tokens is read, of `room` tokens at most: each shares `overlap` of them with
// the one before, and the last ends with the text. `overlap` is below `room`.
std::vector<TokenRun> windows_of(std::int64_t tokens, std::int64_t room, std::int64_t overlap);

// The tokens of a window from the last that begins at or before the answer to the first that ends at or behind it; none
// where the window does not hold all of the answer. Places are those of all tokens of the text.
std::optional<TokenRun> answer_in(const TokenRun& window, std::span<const TextPlace> places, const TextPlace& answer);

}  // namespace llmtrain
