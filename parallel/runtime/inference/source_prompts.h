// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data/examples/target_texts.h"
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
  // What is written of them.
  const TargetTexts& targets() const { return targets_; }

 private:
  const Tokenizer& tokenizer_;
  TargetTexts targets_;
  std::int64_t longest_ = 0;
  bool has_warned_ = false;
};

}  // namespace llmtrain
