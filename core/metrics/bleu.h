// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain {

// The words of a text as mteval-v13a.pl and sacrebleu's tokenizer "13a" cut it: punctuation apart, but for periods and
// commas between digits, apostrophes, and hyphens that follow no digit.
std::vector<std::string> words_13a(std::string_view text);

// BLEU of a corpus (Papineni et al., ACL 2002) over sequences of one to four words, with the smoothing of
// mteval-v13a.pl, as sacrebleu counts it by default ("tok:13a|smooth:exp", case and all; Post, arXiv 1804.08771).
class BleuCounts {
 public:
  // A text has one reference or several, of which each word sequence counts as often as in the one that has
  // most of it, and the length is that of the closest, of equally close ones the shorter.
  void add(std::string_view text, std::span<const std::string> references);

  // From 0 to 100; 0 without texts.
  double score() const;

  // All counts as numbers, always equally many, and the other way: they add up over texts and ranks.
  std::vector<double> numbers() const;
  void add_numbers(std::span<const double> numbers);

 private:
  static constexpr std::size_t longest = 4;

  std::array<std::int64_t, longest> matched_{}, total_{};
  std::int64_t length_ = 0, reference_length_ = 0;
};

}  // namespace llmtrain
