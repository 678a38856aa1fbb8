// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/rule_words.h"

#include <array>
#include <charconv>
#include <limits>

namespace llmtrain {
namespace {

std::string quoted(std::string_view word) { return '"' + std::string(word) + '"'; }

}  // namespace

std::string number_words(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

std::string range_words(IntegerRange range) {
  if (range.maximum == std::numeric_limits<std::int64_t>::max()) {
    return "a whole number from " + std::to_string(range.minimum) + " to 2^63 - 1";
  }
  return "a whole number from " + std::to_string(range.minimum) + " to " + std::to_string(range.maximum);
}

std::string range_words(NumberRange range) {
  const auto minimum = number_words(range.minimum);
  const auto maximum = number_words(range.maximum);
  switch (range.ends) {
    case RangeEnds::open_minimum:
      return "a number above " + minimum + ", at most " + maximum;
    case RangeEnds::open_maximum:
      return "a number from " + minimum + " to below " + maximum;
    case RangeEnds::closed:
      break;
  }
  return "a number from " + minimum + " to " + maximum;
}

std::string choice_words(Words words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += quoted(words[i]);
  }
  return text;
}

std::string text_words(const TextRule& rule) {
  std::string words;
  for (const auto word : rule.words) words += quoted(word) + ", ";
  const auto either = words.empty() ? words : words.substr(0, words.size() - 2) + " or ";
  switch (rule.kind) {
    case TextKind::name:
      return "a text of 1 to 200 characters without slash or control characters";
    case TextKind::path:
    case TextKind::working_path:
      return either + "a path";
    case TextKind::path_or_name:
      return words + "a name or a path";
    case TextKind::checkpoint_source:
      return "null, a path, or \"hf:\" and a path";
    case TextKind::plain:
    case TextKind::schema_link:
      break;
  }
  return "a text";
}

std::string tokenizer_words() { return R"("bytes", {"sentencepiece": FILE} or {"huggingface": FILE})"; }

std::string balance_rule_words() { return R"("layers", "blocks" or a list of layers per stage)"; }

bool contains(NumberRange range, double value) {
  const bool above = range.ends == RangeEnds::open_minimum ? value > range.minimum : value >= range.minimum;
  const bool below = range.ends == RangeEnds::open_maximum ? value < range.maximum : value <= range.maximum;
  return above && below;
}

}  // namespace llmtrain
