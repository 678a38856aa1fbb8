// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/draws.h"

namespace llmtrain {

// What masking knows of a model's tokens.
struct MaskingVocabulary {
  std::int64_t mask = 0;                     // the id that stands for a hidden token
  std::vector<bool> is_special{};            // by id: it stands for no text. Ids beyond the list are special.
  std::vector<bool> begins_word{};           // by id: it does not go on with the word of the token before it
  std::vector<std::int64_t> replacements{};  // ids from which random ones are drawn; not empty
};

// The rows of a sample as they are masked: those of its tokens, without padding.
struct MaskedRows {
  std::span<std::int64_t> ids;                // of the tokens, and then of what the model sees in their place
  std::span<std::uint8_t> marks;              // 0, and then 1 for each row that is to be predicted
  std::span<const std::int64_t> text_starts;  // 1 where a document begins; empty where that is not known
};

// Shares of the rows to be predicted; the rest stays as it is.
struct MaskingShares {
  double replaced = 0.8;  // by the mask
  double random = 0.1;    // by a random token
  bool whole_words = false;
};

// How many rows of a text of `length` tokens, at least 1, are to be predicted: max(1, round(probability · length)).
std::int64_t masked_count(double probability, std::int64_t length);

// Masks exactly `count` of the rows, as BERT's samples are made (Devlin et al., arXiv 1810.04805, section 3.1 and
// appendix A.1, create_pretraining_data.py): each of them becomes the mask, a random token, or stays, and is to be
// predicted. Special tokens are not chosen, unless there are too few others: then they make up the count, unchanged.
// With whole words the pieces of a word are chosen together; words that are longer than what is left of the count are
// passed over, and of the first of these pieces fill what is left at the end, so that at most one word is cut.
void mask_rows(const MaskedRows& rows, std::int64_t count, const MaskingVocabulary& vocabulary,
               const MaskingShares& shares, Draws& draws);

}  // namespace llmtrain
