// SPDX-License-Identifier: Apache-2.0
// Lengths are those of compute_input_and_target_lengths() of transformers' run_t5_mlm_flax.py; what a text becomes is
// checked by what follows from the definition.
#include "core/data/denoising/damaged_text.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>

namespace llmtrain::test::damaged_text {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr std::int64_t first_mark = 1000, mask = 999;

Ids text_of(std::int64_t tokens) {
  Ids text(static_cast<std::size_t>(tokens));
  std::iota(text.begin(), text.end(), 0);
  return text;
}

Ids marks_from_above(std::int64_t count) {
  Ids marks;
  for (std::int64_t i = 0; i < count; ++i) marks.push_back(first_mark + count - i);
  return marks;
}

// The text again: each mark of the source is replaced by what stands behind it in the target.
Ids restored(const DamagedText& damaged) {
  std::map<std::int64_t, Ids> parts;
  std::int64_t mark = -1;
  for (const std::int64_t id : damaged.target) {
    if (id > first_mark)
      mark = id;
    else
      parts[mark].push_back(id);
  }
  Ids text;
  for (const std::int64_t id : damaged.source) {
    if (id > first_mark)
      text.insert(text.end(), parts[id].begin(), parts[id].end());
    else
      text.push_back(id);
  }
  return text;
}

Ids marks_in(const Ids& ids) {
  Ids marks;
  std::ranges::copy_if(ids, std::back_inserter(marks), [](std::int64_t id) { return id > first_mark; });
  return marks;
}

}  // namespace

TEST_CASE("A text, its source and its target are as long as T5's") {
  struct Case {
    std::int64_t source_length;
    double share, mean;
    std::int64_t text, source, target;  // with one mark in the last two
  };
  const std::vector<Case> cases{{513, 0.15, 3, 568, 512, 114},    {512, 0.15, 3, 567, 511, 114},
                                {128, 0.15, 3, 140, 127, 29},     {65, 0.3, 3, 79, 64, 33},
                                {1024, 0.15, 8, 1177, 1023, 200}, {256, 0.25, 2, 291, 255, 110},
                                {32, 0.15, 3, 33, 31, 8},         {114, 0.4, 4.5, 163, 113, 80}};
  for (const Case& each : cases) {
    CAPTURE(each.source_length, each.share, each.mean);
    const DenoisingRecipe recipe{.probability = each.share, .mean_span = each.mean};
    const std::int64_t target_length = denoising_target_length(recipe, each.source_length);
    CHECK(target_length == each.target + 1);
    CHECK(longest_text(recipe, each.source_length, target_length, 1) == each.text);
    const SpanCounts counts = span_counts(recipe, each.text);
    CHECK(counts.source + 1 == each.source);
    CHECK(counts.target + 1 == each.target);
    // More marks leave less room.
    const std::int64_t less = longest_text(recipe, each.source_length, target_length, 2);
    CHECK(less < each.text);
    CHECK(span_counts(recipe, less).source + 3 <= each.source_length);
    CHECK(span_counts(recipe, less).target + 3 <= target_length);
  }
  CHECK(denoising_target_length({.noise = Noise::infilling}, 100) == 100);
  CHECK(longest_text({.noise = Noise::infilling}, 100, 100, 2) == 97);
  CHECK(noise_share({}) == 0.15);
  CHECK(noise_share({.noise = Noise::infilling}) == 0.3);
}

TEST_CASE("Spans become marks in their order, and behind these they stand in the target") {
  for (const std::int64_t tokens : {1, 2, 3, 10, 113, 568}) {
    const SpanCounts counts = span_counts({}, tokens);
    const Ids text = text_of(tokens), marks = marks_from_above(counts.spans);
    for (std::uint64_t key = 0; key < 50; ++key) {
      Draws draws(key);
      const DamagedText damaged = with_spans(text, counts, marks, draws);
      REQUIRE(restored(damaged) == text);
      CHECK(marks_in(damaged.source) == marks);
      CHECK(marks_in(damaged.target) == marks);
      CHECK(std::ssize(damaged.source) == counts.source);
      CHECK(std::ssize(damaged.target) == counts.target);
      if (tokens > 1) CHECK(damaged.source.front() == 0);
      CHECK(damaged.source.back() == marks.back());
    }
  }
  CHECK(span_counts({}, 568).noise == 85);
  CHECK(span_counts({}, 568).spans == 28);
  Draws draws(1);
  CHECK_THROWS_AS(with_spans(text_of(100), span_counts({}, 100), marks_from_above(4), draws), std::invalid_argument);
}

TEST_CASE("All divisions of a text into spans are equally likely") {
  // 3 tokens of 8 in 2 spans: 2 ways to cut these, times 4 to cut the 5 that stay.
  const SpanCounts counts{3, 2, 7, 5};
  std::map<Ids, int> seen;
  for (std::uint64_t key = 0; key < 8000; ++key) {
    Draws draws(key);
    ++seen[with_spans(text_of(8), counts, marks_from_above(2), draws).source];
  }
  CHECK(seen.size() == 8);
  // Five standard deviations of a count with probability 1 / 8.
  for (const auto& [source, count] : seen) CHECK(std::abs(count - 1000) < 150);
}

TEST_CASE("Infilling takes out exactly its share, and a mask stands for each part") {
  double parts = 0, taken = 0;
  for (std::uint64_t key = 0; key < 400; ++key) {
    const std::int64_t tokens = 1 + static_cast<std::int64_t>(key) % 211,
                       noise = std::max<std::int64_t>(1, tokens * 3 / 10);
    const Ids text = text_of(tokens);
    Draws draws(key);
    const Ids source = infilled(text, noise, 3, mask, draws);
    CHECK(std::ssize(source) <= tokens);
    Ids kept;
    std::ranges::copy_if(source, std::back_inserter(kept), [](std::int64_t id) { return id != mask; });
    REQUIRE(std::ssize(kept) == tokens - noise);
    CHECK(std::ranges::is_sorted(kept));
    parts += static_cast<double>(std::ranges::count(source, mask));
    taken += static_cast<double>(noise);
  }
  // A mask stands for 3 tokens on average, those for none included; the last part is cut.
  CHECK(taken / parts == Approx(3).margin(0.3));
}

TEST_CASE("Some masks stand for no token, and those of neighbours do not touch") {
  int inserted = 0, touching = 0;
  for (std::uint64_t key = 0; key < 200; ++key) {
    Draws draws(key);
    const Ids source = infilled(text_of(100), 30, 3, mask, draws);
    for (std::size_t i = 1; i + 1 < source.size(); ++i) {
      if (source[i] != mask) continue;
      if (source[i + 1] == mask || source[i - 1] == mask)
        ++touching;
      else if (source[i + 1] == source[i - 1] + 1)
        ++inserted;
    }
  }
  // exp(−3) of the parts, of which there are about 11 in a text.
  CHECK(inserted > 50);
  CHECK(inserted < 200);
  CHECK(touching < 60);
}

TEST_CASE("Sentences change places within their document") {
  // Two documents behind marks (90): "1 2 ." "3 . ." "4 5", and "6 ." "7 ."; 50 is a full stop.
  const Ids text{90, 1, 2, 50, 3, 50, 50, 4, 5, 90, 6, 50, 7, 50};
  std::vector<SentenceRow> rows;
  for (const std::int64_t id : text) rows.push_back({id == 90, id == 50});
  std::set<Ids> seen;
  for (std::uint64_t key = 0; key < 300; ++key) {
    Draws draws(key);
    seen.insert(permuted(text, rows, draws));
  }
  // 3! orders of the first, and 2 of the second.
  CHECK(seen.size() == 12);
  for (const Ids& each : seen) {
    REQUIRE(each.size() == text.size());
    CHECK(each[0] == 90);
    CHECK(each[9] == 90);
    const auto at = std::ranges::find(each, 1);
    CHECK(*(at + 1) == 2);
    CHECK(*(at + 2) == 50);
    CHECK(*(std::ranges::find(each, 3) + 2) == 50);
    CHECK(*(std::ranges::find(each, 4) + 1) == 5);
  }
}

}  // namespace llmtrain::test::damaged_text
