// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/normalizers/text_replacement.h"

#include "core/tokenizer/pieces/characters.h"
#include "core/tokenizer/pieces/split_pattern.h"

namespace llmtrain {

TextReplacement::TextReplacement(const JsonFields& section) : content_(section.text("content")) {
  const JsonFields pattern = section.section("pattern");
  if (!pattern.has("Regex")) text_ = pattern.text("String");
  if (text_.empty()) regex_ = split_pattern(pattern);
}

std::string TextReplacement::replaced(std::string_view text) const {
  std::string result;
  std::size_t done = 0;
  const auto replace = [&](std::size_t begin, std::size_t end) {
    result.append(text.substr(done, begin - done)).append(content_);
    done = end;
  };
  if (regex_) {
    // Nothing is found in an empty text, not even an empty match.
    if (!text.empty())
      RegexMatcher(*regex_).find_all(text, [&](const RegexMatcher::Match& match) { replace(match.begin, match.end); });
  } else {
    for (std::size_t begin = 0; (begin = text.find(text_, done)) != std::string_view::npos;)
      replace(begin, begin + text_.size());
  }
  return result.append(text.substr(done));
}

std::size_t TextReplacement::characters_at_start(std::string_view text) const {
  std::size_t bytes = 0;
  if (!regex_) {
    if (text.starts_with(text_)) bytes = text_.size();
  } else if (const auto match = RegexMatcher(*regex_).find(text, 0); match && match->begin == 0) {
    bytes = match->end;
  }
  std::size_t characters = 0;
  for_each_character(text.substr(0, bytes), [&](const Character&) { ++characters; });
  return characters;
}

}  // namespace llmtrain
