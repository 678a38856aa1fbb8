// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/json/json_text.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// What a text follows, for readers.
struct SamplePrompt {
  Json json;          // a text, or a list of messages
  std::string shown;  // stands before the text
};

// Writes texts to standard output: a single one as it grows, several in the order of their prompts, each when it has
// ended.
class SampleOutput {
 public:
  enum class Form { text, json_lines };

  SampleOutput(std::vector<SamplePrompt> prompts, std::int64_t samples, Form form)
      : prompts_(std::move(prompts)), samples_(samples), form_(form) {}

  void add(const SamplePiece& piece);

 private:
  std::string finished(const SamplePiece& piece) const;

  std::vector<SamplePrompt> prompts_;
  std::int64_t samples_;
  Form form_;
  std::map<std::int64_t, std::string> waiting_;  // ended before one that comes first, by number
  std::int64_t next_ = 0;
  bool has_begun_ = false;
};

}  // namespace llmtrain::app
