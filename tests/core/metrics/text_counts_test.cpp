// SPDX-License-Identifier: Apache-2.0
// BLEU is what sacrebleu 2.6.0's corpus_bleu() says of the same texts (bleu_test.cpp).
#include "core/metrics/text_counts.h"

#include <catch2/catch.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace llmtrain::test {
namespace {

const std::vector<std::pair<std::string, std::string>> written{{"The cat sat on the mat.", "The cat is on the mat."},
                                                               {"He paid $3.50 for it", "He paid $3.50 for it \n"},
                                                               {"the the the the the", "the cat the dog sat on it"},
                                                               {"", "nothing"}};

TextCounts counts_of(std::size_t begin, std::size_t end) {
  TextCounts counts;
  for (std::size_t i = begin; i < end; ++i) counts.add(written[i].first, written[i].second);
  return counts;
}

}  // namespace

TEST_CASE("Written texts are compared by BLEU and by whether they are the data's") {
  const std::vector<Figure> figures = counts_of(0, written.size()).figures();
  REQUIRE(figures.size() == 2);
  CHECK(figures[0].name == "bleu");
  CHECK(figures[0].value == Approx(48.03592445466818));
  CHECK(figures[1].name == "exact_match");
  CHECK(figures[1].value == 0.25);
  CHECK(TextCounts().figures()[1].value == 0);
}

TEST_CASE("Counts of texts add up, however ranks have shared them") {
  TextCounts sum;
  for (const auto& [begin, end] : {std::pair{0, 1}, std::pair{1, 4}, std::pair{4, 4}})
    sum.add_numbers(counts_of(static_cast<std::size_t>(begin), static_cast<std::size_t>(end)).numbers());
  const TextCounts whole = counts_of(0, written.size());
  CHECK(sum.numbers() == whole.numbers());
  CHECK(sum.figures()[0].value == whole.figures()[0].value);
  CHECK_THROWS_AS(sum.add_numbers(std::vector<double>{1, 2, 3}), std::logic_error);
}

}  // namespace llmtrain::test
