// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/data/denoising/damaged_text.h"
#include "core/data/examples/example_template.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// How a recipe damages the texts that it reads.
struct Denoising {
  DenoisingRecipe recipe{};
  std::vector<std::int64_t> before{}, behind{};  // the tokenizer's marks around a text
  std::vector<std::int64_t> sentinels{};         // of spans, in the order of parts
  std::int64_t mask = 0;                         // of infilling
  std::vector<SentenceRow> rows{};               // by id, where sentences are permuted
  std::int64_t padding = 0, decoder_start = 0;
  std::int64_t source_length = 0, target_length = 0;  // of the two sequences
  std::int64_t longest = 0;                           // tokens of a text, without the marks

  std::int64_t marks() const { return static_cast<std::int64_t>(before.size() + behind.size()); }
};

// What data.denoising, data.tokenizer and batch.sequence_length say; null: the recipe damages nothing. Throws what
// open_tokenizer() throws, and Error(bad_data) where the tokenizer lacks marks: one behind texts, by which a target
// ends, padding where the recipe names no decoder_start, of spans as many sentinels <extra_id_0>, <extra_id_1>, … as a
// text of this length has parts, and of infilling a mask where the recipe names none; or where the marks leave no room.
std::shared_ptr<const Denoising> denoising_of(const Recipe& recipe);

}  // namespace llmtrain
