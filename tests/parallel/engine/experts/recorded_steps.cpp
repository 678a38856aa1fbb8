// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/engine/experts/recorded_steps.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "parallel/comm/local/local_world.h"
#include "parallel/engine/trainer.h"
#include "tests/parallel/engine/lone_trainer.h"

namespace llmtrain::test {
namespace {

using Choice = TokenChoices::Choice;
using Layer = TokenChoices::Layer;

constexpr double nearly_equal = 1e-6;

void add_to(StepChoices& choices, const TokenChoices& of_rank) {
  for (const auto& [layer, tokens] : of_rank.layers())
    for (const auto& [token, choice] : tokens)
      if (!choices[layer].emplace(token, choice).second)
        throw Error(ExitCode::internal_error,
                    "two ranks route token " + std::to_string(token) + " in layer " + std::to_string(layer));
}

bool contains(const std::vector<std::int64_t>& experts, std::int64_t expert) {
  return std::ranges::find(experts, expert) != experts.end();
}

// A token that has a place at an expert in one of the runs alone.
struct MovedPlace {
  std::int64_t expert = 0;
  bool is_gained = false;
  double best = 0;
};

// An expert has as many places in both runs: a token that loses one leaves it to another, of nearly the same score.
bool is_exchanged(const MovedPlace& place, const std::vector<MovedPlace>& all) {
  return std::ranges::any_of(all, [&](const MovedPlace& other) {
    return other.expert == place.expert && other.is_gained != place.is_gained &&
           std::abs(other.best - place.best) <= nearly_equal;
  });
}

// In layers whose tokens choose the same experts.
MovedTokens moved_places(const Layer& got, const Layer& expected) {
  std::vector<MovedPlace> places;
  for (const auto& [token, choice] : expected) {
    const Choice& other = got.at(token);
    for (const std::int64_t expert : choice.experts) {
      const bool is_kept = contains(other.kept, expert);
      if (is_kept != contains(choice.kept, expert)) places.push_back({expert, is_kept, choice.best});
    }
  }
  MovedTokens moved;
  for (const MovedPlace& place : places) ++(is_exchanged(place, places) ? moved.narrowly : moved.clearly);
  return moved;
}

MovedTokens moved_tokens(const Layer& got, const Layer& expected) {
  MovedTokens moved;
  for (const auto& [token, choice] : expected) {
    const Choice& other = got.at(token);
    if (other.experts == choice.experts) continue;
    ++(std::min(other.gap, choice.gap) <= nearly_equal ? moved.narrowly : moved.clearly);
  }
  // Other choices leave other places.
  return moved.narrowly + moved.clearly > 0 ? moved : moved_places(got, expected);
}

void check_same_tokens(const StepChoices& got, const StepChoices& expected) {
  const auto same_keys = [](const auto& a, const auto& b) { return a.first == b.first; };
  bool is_same = std::ranges::equal(got, expected, same_keys);
  for (auto layer = expected.begin(); is_same && layer != expected.end(); ++layer)
    is_same = std::ranges::equal(got.at(layer->first), layer->second, same_keys);
  if (!is_same) throw Error(ExitCode::internal_error, "the runs have other layers with experts, or other tokens");
}

}  // namespace

std::vector<RecordedStep> recorded_steps(const Recipe& recipe, int ranks, std::size_t steps) {
  std::vector<RecordedStep> recorded(steps);
  std::vector<std::vector<TokenChoices>> choices(static_cast<std::size_t>(ranks), std::vector<TokenChoices>(steps));
  const auto layout = layout_of(recipe, ranks);
  LocalWorld(ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout, communicator, at::kCPU);
    for (std::size_t step = 0; step < steps; ++step) {
      trainer.record_choices(&choices[static_cast<std::size_t>(communicator.rank())][step]);
      StepResult result = trainer.step();
      if (communicator.rank() == 0) recorded[step].result = std::move(result);
    }
  });
  for (const std::vector<TokenChoices>& of_rank : choices)
    for (std::size_t step = 0; step < steps; ++step) add_to(recorded[step].choices, of_rank[step]);
  return recorded;
}

ChoiceComparison compare_choices(std::span<const RecordedStep> got, std::span<const RecordedStep> expected) {
  ChoiceComparison comparison;
  for (std::size_t step = 0; step < expected.size(); ++step, ++comparison.same_steps) {
    check_same_tokens(got[step].choices, expected[step].choices);
    for (const auto& [layer, tokens] : expected[step].choices) {
      comparison.moved = moved_tokens(got[step].choices.at(layer), tokens);
      if (comparison.moved.narrowly + comparison.moved.clearly > 0) return comparison;
    }
  }
  return comparison;
}

}  // namespace llmtrain::test
