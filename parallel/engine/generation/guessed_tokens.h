// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "parallel/engine/generation/decoder.h"
#include "parallel/engine/generation/drafts.h"

namespace llmtrain {

struct ChosenToken {
  std::int64_t id = 0;
  bool goes_on = false;  // whether its text does
};

// Chooses a token for each of these texts, by its row of the logits, adds it, and returns them.
using AddTokens = std::function<std::vector<ChosenToken>(std::span<const std::size_t> texts, const at::Tensor& logits,
                                                         std::span<const std::int64_t> rows)>;

// Lets texts, counted from 0, grow in one pass of the decoder, whose sequences are their places: by as many guesses as
// are what is added, and one token more. `most` of a text is what may be guessed, of which the drafts guess their
// number at most, and none where nobody guesses. Collective: the other ranks check the guesses of the one that decides.
void grow_texts(Decoder& decoder, const Drafting& drafting, std::vector<DraftedText> texts, const AddTokens& add);

}  // namespace llmtrain
