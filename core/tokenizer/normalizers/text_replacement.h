// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/tokenizer/pieces/json_fields.h"
#include "core/tokenizer/pieces/regex.h"

namespace llmtrain {

// "Replace" of tokenizer.json, a normalizer and a decoder: each match of a text or pattern becomes "content".
class TextReplacement {
 public:
  // Throws Error(bad_data) for a pattern that cannot be used.
  explicit TextReplacement(const JsonFields& section);
  TextReplacement(std::string text, std::string content) : text_(std::move(text)), content_(std::move(content)) {}

  // `text` is valid UTF-8.
  std::string replaced(std::string_view text) const;

  // Characters of the match that `text` begins with; 0 for none.
  std::size_t characters_at_start(std::string_view text) const;
  const std::string& content() const { return content_; }

 private:
  std::string text_;  // empty: the pattern counts
  std::optional<Regex> regex_;
  std::string content_;
};

}  // namespace llmtrain
