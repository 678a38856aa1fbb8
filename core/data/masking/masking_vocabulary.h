// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/masking/masked_rows.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// How a recipe masks the texts that it reads.
struct Masking {
  MaskingRecipe recipe{};
  MaskingVocabulary vocabulary{};
};

// What data.masking, data.tokenizer and the size of the model's vocabulary say; null: the recipe masks nothing. Where
// token files are read and no tokenizer is named, all ids but the mask and the end of documents are text. Throws what
// open_tokenizer() throws, and Error(bad_data) where the tokenizer has no mask and the recipe names none.
std::shared_ptr<const Masking> masking_of(const Recipe& recipe);

}  // namespace llmtrain
