// SPDX-License-Identifier: Apache-2.0
// Which experts the tokens of models with experts choose on several ranks: those of one rank, unless scores are nearly
// equal.
#include <catch2/catch.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/parallel/engine/experts/expert_models.h"
#include "tests/parallel/engine/experts/recorded_steps.h"

namespace llmtrain::test {
namespace {

std::vector<RankCase> expert_by_tensor_by_context() {
  return {{4, {tensor(2), context(2)}},
          {4, {experts(2), tensor(2), zero(1)}},
          {8, {experts(2), tensor(2), context(2), "parallel.sequence=false"}},
          {4, {experts(4), zero(3), "pipeline.loops=3"}},
          {8, {experts(4), context(2), "memory.recompute=\"full\""}},
          {8, {experts(8), parts(2)}},
          {8, {experts(8), tensor(2), context(2), sliced(1)}},
          {8, {experts(2), tensor(2), "parallel.pipeline=2", "pipeline.balance=[1,2]"}}};
}

}  // namespace

TEST_CASE("on any ranks all tokens go to the same experts, but for nearly equal scores", "[ranks]") {
  constexpr std::size_t steps = 3;
  const TrainingSetting setting;
  for (const Overrides& model : {dropless, cosine}) {
    const std::vector<RecordedStep> expected = recorded_steps(setting.recipe(model), 1, steps);
    for (const RecordedStep& step : expected) {
      REQUIRE(step.choices.size() == 3);
      for (const auto& [layer, tokens] : step.choices) CHECK((tokens.size() == 192 && tokens.rbegin()->first == 191));
    }
    for (const RankCase& layout : expert_by_tensor_by_context()) {
      INFO(in_words(layout.ranks, model + layout.overrides));
      const auto got = recorded_steps(setting.recipe(model + layout.overrides), layout.ranks, steps);
      const ChoiceComparison comparison = compare_choices(got, expected);
      INFO("nearly equal scores moved " << comparison.moved.narrowly << " tokens");
      CHECK(comparison.moved.clearly == 0);
      // Two of the 192 tokens in a layer, of which one may take the other's place.
      CHECK(comparison.moved.narrowly <= 2);
    }
  }
}

// Three tokens of layer 1, of which the last one nearly chooses the other way round.
StepChoices some_choices() {
  return {{1, {{0, {{0, 1}, {0, 1}, 0.5, 0.1}}, {1, {{0, 2}, {2}, 0.4, 0.1}}, {2, {{0, 2}, {2}, 0.5, 1e-7}}}}};
}

// Compares two steps of which the second is changed so.
ChoiceComparison compared_with(const std::function<void(TokenChoices::Layer&)>& change) {
  const std::vector<RecordedStep> expected{{{}, some_choices()}, {{}, some_choices()}};
  std::vector<RecordedStep> got = expected;
  change(got[1].choices.at(1));
  return compare_choices(got, expected);
}

TEST_CASE("tokens that moved narrowly are told from others") {
  const ChoiceComparison same = compared_with([](TokenChoices::Layer&) {});
  CHECK((same.same_steps == 2 && same.moved.narrowly == 0 && same.moved.clearly == 0));
  const ChoiceComparison other_experts = compared_with([](TokenChoices::Layer& tokens) {
    tokens.at(0).experts = {0, 2};
    tokens.at(2).experts = {2, 0};
  });
  CHECK((other_experts.same_steps == 1 && other_experts.moved.narrowly == 1 && other_experts.moved.clearly == 1));
  // The place of token 0 at expert 0 goes to a token of another score, and to one of the same.
  const auto with_place_of_first = [](std::int64_t taker) {
    return [taker](TokenChoices::Layer& tokens) {
      tokens.at(0).kept = {1};
      tokens.at(taker).kept = {0, 2};
    };
  };
  CHECK(compared_with(with_place_of_first(1)).moved.clearly == 2);
  CHECK((compared_with(with_place_of_first(2)).moved.narrowly == 2));
  CHECK_THROWS(compared_with([](TokenChoices::Layer& tokens) { tokens.erase(0); }));
}

}  // namespace llmtrain::test
