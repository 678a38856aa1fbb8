// SPDX-License-Identifier: Apache-2.0
#include "core/data/masking/masked_rows.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <numeric>

namespace llmtrain::test::masked_rows {
namespace {

// Ids 0 and 1 are special, of the others the even ones begin words; 7 is the mask.
constexpr std::int64_t special_ids = 2, mask = 7, ids = 12;

MaskingVocabulary vocabulary() {
  MaskingVocabulary made{.mask = mask};
  for (std::int64_t id = 0; id < ids; ++id) {
    made.is_special.push_back(id < special_ids || id == mask);
    made.begins_word.push_back(id % 2 == 0);
    if (!made.is_special.back()) made.replacements.push_back(id);
  }
  return made;
}

struct Masked {
  std::vector<std::int64_t> ids;
  std::vector<std::uint8_t> marks;

  bool operator==(const Masked&) const = default;
};

Masked masked(const std::vector<std::int64_t>& tokens, std::int64_t count, const MaskingShares& shares,
              std::uint64_t key, std::span<const std::int64_t> starts = {}) {
  Masked result{tokens, std::vector<std::uint8_t>(tokens.size(), 9)};
  Draws draws(key);
  mask_rows({result.ids, result.marks, starts}, count, vocabulary(), shares, draws);
  return result;
}

std::vector<std::int64_t> random_tokens() {
  return *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, ids)));
}

bool is_special(std::int64_t id) { return id < special_ids || id == mask; }

// A word's first row and length, by a definition of its own: a row goes on with a word if it is odd and text, and so is
// what is before it text.
std::vector<std::pair<std::size_t, std::size_t>> words_of(const std::vector<std::int64_t>& tokens) {
  std::vector<std::pair<std::size_t, std::size_t>> words;
  for (std::size_t row = 0; row < tokens.size();) {
    std::size_t end = row + 1;
    while (!is_special(tokens[row]) && end < tokens.size() && tokens[end] % 2 == 1 && !is_special(tokens[end])) ++end;
    if (!is_special(tokens[row])) words.emplace_back(row, end - row);
    row = end;
  }
  return words;
}

}  // namespace

TEST_CASE("The rows to be predicted are the rounded share of a text, and at least one") {
  CHECK(masked_count(0.15, 512) == 77);
  CHECK(masked_count(0.15, 10) == 2);  // 1.5
  CHECK(masked_count(0.15, 2) == 1);
  CHECK(masked_count(1, 7) == 7);
  CHECK(masked_count(1e-9, 7) == 1);
}

TEST_CASE("Exactly so many rows count, none of them special where there are others, and no other row changes") {
  rc::prop("masked rows", [] {
    const auto tokens = random_tokens();
    const auto size = std::ssize(tokens);
    const std::int64_t count = *rc::gen::inRange<std::int64_t>(1, size + 1);
    const double replaced = *rc::gen::inRange(0, 11) / 10.0;
    const MaskingShares shares{replaced, *rc::gen::inRange(0, 11) / 10.0 * (1 - replaced), *rc::gen::arbitrary<bool>()};
    const auto key = *rc::gen::arbitrary<std::uint64_t>();
    const Masked result = masked(tokens, count, shares, key);
    RC_ASSERT(std::accumulate(result.marks.begin(), result.marks.end(), std::int64_t{0}) == count);
    const std::int64_t texts = std::ranges::count_if(tokens, [](std::int64_t id) { return !is_special(id); });
    std::int64_t special_marks = 0;
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      const bool changed = result.ids[row] != tokens[row];
      if (is_special(tokens[row])) {
        RC_ASSERT(!changed);
        special_marks += result.marks[row];
      }
      if (changed) {
        RC_ASSERT(result.marks[row] == 1);
        RC_ASSERT(result.ids[row] == mask || !is_special(result.ids[row]));
        RC_ASSERT(result.ids[row] != mask || shares.replaced > 0);
      }
      if (result.marks[row] == 1 && !is_special(tokens[row]) && shares.replaced == 1)
        RC_ASSERT(result.ids[row] == mask);
    }
    RC_ASSERT(special_marks == std::max<std::int64_t>(0, count - texts));
    RC_ASSERT(masked(tokens, count, shares, key) == result);
  });
}

TEST_CASE("Whole words are hidden, of which at most one is cut") {
  rc::prop("whole words", [] {
    const auto tokens = random_tokens();
    const std::int64_t count = *rc::gen::inRange<std::int64_t>(1, std::ssize(tokens) + 1);
    const Masked result = masked(tokens, count, {.whole_words = true}, *rc::gen::arbitrary<std::uint64_t>());
    int cut = 0;
    for (const auto& [begin, length] : words_of(tokens)) {
      std::size_t marks = 0;
      for (std::size_t i = 0; i < length; ++i) marks += result.marks[begin + i];
      if (marks == 0 || marks == length) continue;
      ++cut;
      // Its first pieces.
      for (std::size_t i = 0; i < marks; ++i) RC_ASSERT(result.marks[begin + i] == 1);
    }
    RC_ASSERT(cut <= 1);
  });
}

TEST_CASE("A document that begins within a word of its neighbour has a word of its own") {
  // Two words of two pieces each where the second text begins with a piece that would go on.
  const std::vector<std::int64_t> tokens{2, 3, 5, 9}, starts{1, 0, 1, 0};
  int of_second = 0;
  for (std::uint64_t key = 0; key < 50; ++key) {
    const Masked result = masked(tokens, 2, {.whole_words = true}, key, starts);
    CHECK(result.marks[0] == result.marks[1]);
    CHECK(result.marks[2] == result.marks[3]);
    of_second += result.marks[2];
  }
  // One word of four pieces would be cut behind the first two each time.
  CHECK(of_second > 0);
}

// 20,000 samples of ten rows: five standard deviations of the shares that are drawn.
TEST_CASE("All rows are chosen alike, and become what the shares say") {
  const std::vector<std::int64_t> tokens{0, 2, 3, 4, 5, 6, 8, 9, 10, 1};
  constexpr int times = 20'000, count = 2;
  std::vector<double> chosen(tokens.size(), 0);
  double masks = 0, others = 0;
  for (int i = 0; i < times; ++i) {
    const Masked result = masked(tokens, count, {}, static_cast<std::uint64_t>(i));
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      chosen[row] += result.marks[row];
      if (result.ids[row] == mask)
        ++masks;
      else if (result.ids[row] != tokens[row])
        ++others;
    }
  }
  CHECK(chosen.front() + chosen.back() == 0);
  const auto close = [](double found, double share, double of) {
    return std::abs(found - share * of) < 5 * std::sqrt(of * share * (1 - share));
  };
  for (std::size_t row = 1; row + 1 < tokens.size(); ++row) CHECK(close(chosen[row], count / 8.0, times));
  CHECK(close(masks, 0.8, count * times));
  // A random token is one of nine, of which one is the same.
  CHECK(close(others, 0.1 * 8 / 9, count * times));
}

}  // namespace llmtrain::test::masked_rows
