// SPDX-License-Identifier: Apache-2.0
#include "core/data/masking/masked_rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace llmtrain {
namespace {

// Consecutive rows that are chosen together.
struct Word {
  std::size_t begin = 0, length = 0;
};

bool is_special(const MaskingVocabulary& vocabulary, std::int64_t id) {
  const auto place = static_cast<std::size_t>(id);
  return place >= vocabulary.is_special.size() || vocabulary.is_special[place];
}

std::vector<Word> words_of(const MaskedRows& rows, const MaskingVocabulary& vocabulary, bool whole_words) {
  std::vector<Word> words;
  bool goes_on = false;  // whether the row before is text
  for (std::size_t row = 0; row < rows.ids.size(); ++row) {
    const std::int64_t id = rows.ids[row];
    if (is_special(vocabulary, id)) {
      goes_on = false;
      continue;
    }
    const bool begins = !whole_words || !goes_on || vocabulary.begins_word[static_cast<std::size_t>(id)] ||
                        (!rows.text_starts.empty() && rows.text_starts[row] != 0);
    if (begins) words.push_back({row, 0});
    ++words.back().length;
    goes_on = true;
  }
  return words;
}

// The words in a random order, chosen until there are `count` rows; what is missing then, where words were too long.
std::vector<std::size_t> chosen_rows(std::vector<Word> words, std::size_t count, Draws& draws) {
  std::vector<std::size_t> rows;
  std::size_t longer = words.size();  // the first word that was passed over
  const auto take = [&](const Word& word, std::size_t length) {
    for (std::size_t i = 0; i < length; ++i) rows.push_back(word.begin + i);
  };
  for (std::size_t next = 0; next < words.size() && rows.size() < count; ++next) {
    // Fisher and Yates's shuffle, as far as it is needed.
    const auto other = next + static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(words.size() - next)));
    std::swap(words[next], words[other]);
    if (rows.size() + words[next].length <= count)
      take(words[next], words[next].length);
    else
      longer = std::min(longer, next);
  }
  // It is longer than what was left when it was passed over, and so than what is left now.
  if (rows.size() < count && longer < words.size()) take(words[longer], count - rows.size());
  return rows;
}

}  // namespace

std::int64_t masked_count(double probability, std::int64_t length) {
  return std::clamp<std::int64_t>(std::llround(probability * static_cast<double>(length)), 1, length);
}

void mask_rows(const MaskedRows& rows, std::int64_t count, const MaskingVocabulary& vocabulary,
               const MaskingShares& shares, Draws& draws) {
  std::ranges::fill(rows.marks, std::uint8_t{0});
  auto chosen = chosen_rows(words_of(rows, vocabulary, shares.whole_words), static_cast<std::size_t>(count), draws);
  // In the order of the rows, so that what becomes of one does not depend on how it was found.
  std::ranges::sort(chosen);
  for (const std::size_t row : chosen) {
    rows.marks[row] = 1;
    const double share = draws.share();
    if (share < shares.replaced)
      rows.ids[row] = vocabulary.mask;
    else if (share < shares.replaced + shares.random)
      rows.ids[row] =
          vocabulary.replacements[static_cast<std::size_t>(draws.below(std::ssize(vocabulary.replacements)))];
  }
  auto missing = count - std::ssize(chosen);
  for (std::size_t row = 0; row < rows.marks.size() && missing > 0; ++row)
    if (rows.marks[row] == 0) {
      rows.marks[row] = 1;
      --missing;
    }
}

}  // namespace llmtrain
