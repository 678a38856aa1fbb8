// SPDX-License-Identifier: Apache-2.0
// What rules leave of the next token, and which texts a search by beams finds: against transformers' by
// tests/oracle/source_generation_test.py, and here by hand.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "parallel/engine/generation/beam_hypotheses.h"
#include "parallel/engine/generation/logit_rules.h"

namespace llmtrain::test {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();
using Scores = std::vector<float>;

Scores ruled(const LogitRules& rules, const std::vector<std::int64_t>& before, std::int64_t index = 1) {
  Scores scores{3, 2.5F, -1, -1.5F, 0};
  apply(rules, {index, 4, before}, scores);
  return scores;
}

constexpr std::int64_t end = 0;

// The tokens of the finished texts where each step offers these candidates.
std::vector<std::vector<std::int64_t>> found(const BeamSearch& search, std::int64_t most,
                                             const std::vector<std::vector<BeamCandidate>>& steps) {
  BeamHypotheses hypotheses(search, most);
  for (const std::vector<BeamCandidate>& step : steps) {
    REQUIRE_FALSE(hypotheses.is_done());
    hypotheses.advance(step);
  }
  REQUIRE(hypotheses.is_done());
  std::vector<std::vector<std::int64_t>> texts;
  for (const BeamHypotheses::Text& text : hypotheses.finished()) texts.push_back(text.tokens);
  return texts;
}

}  // namespace

TEST_CASE("a repetition penalty divides the positive scores of what is there and multiplies the negative ones, once") {
  CHECK(ruled({}, {0, 1}) == Scores{3, 2.5F, -1, -1.5F, 0});
  CHECK(ruled({.repetition_penalty = 2}, {0, 0, 0}) == Scores{1.5F, 2.5F, -1, -1.5F, 0});
  CHECK(ruled({.repetition_penalty = 2}, {1, 3, 99}) == Scores{3, 1.25F, -1, -3, 0});
}

TEST_CASE("no sequence of tokens comes twice, and first and last ones may be set") {
  CHECK(ruled({.no_repeat_ngram_size = 2}, {1, 2, 1, 3, 1}) == Scores{3, 2.5F, never, never, 0});
  CHECK(ruled({.no_repeat_ngram_size = 3}, {1, 2, 4, 3, 1, 2}) == Scores{3, 2.5F, -1, -1.5F, never});
  CHECK(ruled({.no_repeat_ngram_size = 3}, {1, 2}) == Scores{3, 2.5F, -1, -1.5F, 0});
  CHECK(ruled({.no_repeat_ngram_size = 1}, {2}) == Scores{3, 2.5F, never, -1.5F, 0});
  const LogitRules forced{.forced_first = 2, .forced_last = 3};
  CHECK(ruled(forced, {1}, 0) == Scores{never, never, 0, never, never});
  CHECK(ruled(forced, {1}, 2) == Scores{3, 2.5F, -1, -1.5F, 0});
  CHECK(ruled(forced, {1}, 3) == Scores{never, never, never, 0, never});
}

TEST_CASE("the best candidates are those of all beams, and none that cannot be") {
  const std::vector<std::vector<float>> scores{{-1, never, -3}, {-2, -0.5F, never}};
  std::vector<std::int64_t> beams, tokens;
  for (const BeamCandidate& candidate : best_candidates(scores, 3)) {
    beams.push_back(candidate.beam);
    tokens.push_back(candidate.token);
  }
  CHECK(beams == std::vector<std::int64_t>{1, 0, 1});
  CHECK(tokens == std::vector<std::int64_t>{1, 0, 0});
  CHECK(best_candidates(scores, 9).size() == 4);
}

TEST_CASE("beams end when no text could be better, at once, or never before") {
  const BeamSearch search{.beams = 2, .length_penalty = 1, .ends = {end}};
  // Two texts are finished after two steps, of -1 ÷ 1 and -4 ÷ 2; a third would be better.
  const std::vector<std::vector<BeamCandidate>> steps{{{-1, 0, end}, {-1.2, 0, 5}, {-1.5, 0, 6}},
                                                      {{-1.3, 0, 7}, {-4, 1, end}, {-5, 1, 8}},
                                                      {{-1.4, 0, end}, {-9, 1, 9}, {-9.5, 0, 9}}};
  // After the third step what goes on is worse by far: -9 ÷ 3.
  CHECK(found(search, 9, steps) == std::vector<std::vector<std::int64_t>>{{5, 7, end}, {end}});
  BeamSearch early = search;
  early.early_stopping = EarlyStopping::yes;
  CHECK(found(early, 9, {steps[0], steps[1]}) == std::vector<std::vector<std::int64_t>>{{end}, {6, end}});
  // With nine tokens -9 ÷ 9 would be no better than -1 ÷ 1 either, but it could be of ten.
  BeamSearch whole = search;
  whole.early_stopping = EarlyStopping::never;
  CHECK(found(whole, 9, steps).front() == std::vector<std::int64_t>{5, 7, end});
  BeamHypotheses longer(whole, 10);
  for (const auto& step : steps) longer.advance(step);
  CHECK_FALSE(longer.is_done());
  // Texts that have no room for more are finished as they are.
  CHECK(found(search, 1, {{{-1, 0, 4}, {-2, 0, end}, {-3, 0, 6}}}) ==
        std::vector<std::vector<std::int64_t>>{{4}, {end}});
}

}  // namespace llmtrain::test
