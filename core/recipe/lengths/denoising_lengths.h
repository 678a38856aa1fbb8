// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/data_recipe.h"

namespace llmtrain {

// What span corruption makes of a text (Raffel et al., arXiv 1910.10683, section 3.1.4; random_spans_noise_mask() and
// random_spans_helper() of its code): counts of tokens, without the tokenizer's marks. Of a text as long as this they
// are always the same. Halves are rounded to the even number, as NumPy does.
struct SpanCounts {
  std::int64_t noise = 0;   // tokens that are taken out, at least 1
  std::int64_t spans = 0;   // parts that they make, at least 1, each of which has a mark
  std::int64_t source = 0;  // the rest, and a mark for each part
  std::int64_t target = 0;  // the parts, each behind its mark

  bool operator==(const SpanCounts&) const = default;
};

// `tokens`: those of the text, at least 1.
SpanCounts span_counts(const DenoisingRecipe& denoising, std::int64_t tokens);

// The longest text of which both what is read and what is written fit into sequences of these lengths, with `marks` of
// the tokenizer and a row of padding in each; less than 2: none does.
std::int64_t longest_text(const DenoisingRecipe& denoising, std::int64_t source_length, std::int64_t target_length,
                          std::int64_t marks);

// The tokens of a target's sequence where those of a source have so many: for spans what the longest text needs, as
// compute_input_and_target_lengths() of transformers' example of T5 has it, with a row of padding in each sequence; at
// most as many as a source's.
std::int64_t denoising_target_length(const DenoisingRecipe& denoising, std::int64_t source_length);

}  // namespace llmtrain
