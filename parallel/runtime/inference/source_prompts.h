// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/data/examples/example_template.h"
#include "core/tokenizer/tokenizer.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// The sources of which an encoder-decoder writes targets, as its training on pairs has them (core/data/examples).
class SourcePrompts {
 public:
  // The tokenizer outlives this. Throws Error(bad_data) where the tokenizer's file is damaged, and where neither the
  // request nor the tokenizer says what targets begin with.
  SourcePrompts(const SampleRequest& request, const Tokenizer& tokenizer);

  // The source between the tokenizer's marks. One that is longer than the model's sequences loses its end, not the mark
  // there, of which a line of the log warns once.
  std::vector<std::int64_t> tokens(const std::string& source);
  std::int64_t decoder_start() const { return decoder_start_; }
  // The text of a target's tokens, without the tokenizer's marks and what it begins with.
  std::string text_of(std::span<const std::int64_t> tokens) const;

 private:
  const Tokenizer& tokenizer_;
  ExampleTemplate template_;
  std::int64_t longest_ = 0, decoder_start_ = 0;
  bool has_warned_ = false;
};

}  // namespace llmtrain
