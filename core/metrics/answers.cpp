// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/answers.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "core/tokenizer/pieces/characters.h"

namespace llmtrain {
namespace {

using Words = std::vector<std::string>;

// Python's string.punctuation: ASCII's alone.
bool is_removed(char32_t code) { return code < 0x80 && is_punctuation(code); }

bool is_article(std::string_view word) { return word == "a" || word == "an" || word == "the"; }

// The words at whose ends characters of words stop: between them is what does not belong to any, as it stands.
std::string without_articles(std::string_view text) {
  std::string result, word;
  const auto end_word = [&] {
    result += is_article(word) ? " " : word;
    word.clear();
  };
  for_each_character(text, [&](const Character& character) {
    const bool is_of_word = is_word_character(character.code);
    if (!is_of_word) end_word();
    append_character(character.code, is_of_word ? word : result);
  });
  end_word();
  return result;
}

Words words_of(std::string_view text) {
  Words words(1);
  for_each_character(text, [&](const Character& character) {
    if (!is_white_space(character.code))
      append_character(character.code, words.back());
    else if (!words.back().empty())
      words.emplace_back();
  });
  if (words.back().empty()) words.pop_back();
  return words;
}

Words normalized_words(std::string_view text) {
  std::string plain;
  for_each_character(text, [&](const Character& character) {
    if (!is_removed(character.code)) append_character(first_of_lower_case(character.code), plain);
  });
  return words_of(without_articles(plain));
}

// Without words on a side both are to have none.
double f1_of(const Words& told, const Words& answer) {
  if (told.empty() || answer.empty()) return told == answer ? 1 : 0;
  std::map<std::string_view, std::int64_t> left;
  for (const std::string& word : answer) ++left[word];
  std::int64_t common = 0;
  for (const std::string& word : told)
    if (left[word]-- > 0) ++common;
  // 2 · precision · recall ÷ (precision + recall).
  return 2 * static_cast<double>(common) / static_cast<double>(told.size() + answer.size());
}

}  // namespace

std::string normalized_answer(std::string_view text) {
  std::string joined;
  for (const std::string& word : normalized_words(text)) joined += (joined.empty() ? "" : " ") + word;
  return joined;
}

void AnswerCounts::add(std::string_view told, std::span<const std::string> answers) {
  // Answers that have no words are not counted, unless there are no others.
  std::vector<Words> references;
  for (const std::string& answer : answers)
    if (Words words = normalized_words(answer); !words.empty()) references.push_back(std::move(words));
  if (references.empty()) references.emplace_back();
  const Words words = normalized_words(told);
  double best = 0;
  for (const Words& reference : references) best = std::max(best, f1_of(words, reference));
  ++count_;
  if (std::ranges::count(references, words) > 0) ++exact_;
  f1_ += best;
}

std::vector<Figure> AnswerCounts::figures() const {
  const auto count = static_cast<double>(std::max<std::int64_t>(1, count_));
  return {{"exact_match", static_cast<double>(exact_) / count}, {"f1", f1_ / count}};
}

std::optional<ScoredSpan> best_span(std::span<const double> start_logits, std::span<const double> end_logits,
                                    std::int64_t begin, std::int64_t end, std::int64_t longest) {
  std::optional<ScoredSpan> best;
  for (std::int64_t first = begin; first < end; ++first)
    for (std::int64_t last = first; last < std::min(end, first + longest); ++last) {
      const double score = start_logits[static_cast<std::size_t>(first)] + end_logits[static_cast<std::size_t>(last)];
      if (!best || score > best->score) best = {score, first, last};
    }
  return best;
}

}  // namespace llmtrain
