// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "parallel/engine/generation/drafts.h"

namespace llmtrain {

struct ChosenToken {
  std::int64_t id = 0;
  bool goes_on = false;  // whether its text does
};

// Adds a token to each of these texts, by its row of a pass's logits, and returns them.
using AddTokens =
    std::function<std::vector<ChosenToken>(std::span<const std::size_t> texts, std::span<const std::int64_t> rows)>;

// Lets texts, counted from 0, grow by as many of their guesses as are what is added, and one token more. The pass had
// of each text, one after another, its last token and its guesses: a row after each of them.
Drafts::Counts add_guessed(const Drafts::Guesses& guesses, const AddTokens& add);

}  // namespace llmtrain
