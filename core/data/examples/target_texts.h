// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/data/examples/example_template.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// The texts of targets that an encoder-decoder writes, which it has learned as the tokenizer puts them into sequences.
class TargetTexts {
 public:
  // The tokenizer outlives this. Throws what example_template() throws.
  TargetTexts(const TokenizerRecipe& recipe, const Tokenizer& tokenizer, std::int64_t decoder_start)
      : tokenizer_(tokenizer), template_(example_template(recipe, tokenizer)), decoder_start_(decoder_start) {}

  // Without the tokenizer's marks and what targets begin with.
  std::string text_of(std::span<const std::int64_t> tokens) const;
  // The mark behind a text: data.pairs needs a tokenizer that has one.
  std::int64_t end() const { return template_.single.back().id; }

  const ExampleTemplate& marks() const { return template_; }
  std::int64_t decoder_start() const { return decoder_start_; }

 private:
  const Tokenizer& tokenizer_;
  ExampleTemplate template_;
  std::int64_t decoder_start_;
};

}  // namespace llmtrain
