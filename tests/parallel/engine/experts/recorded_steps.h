// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/model/moe/token_choices.h"
#include "core/recipe/recipe.h"
#include "parallel/engine/runner.h"

// Steps of models with experts on several ranks, and where their tokens go, compared with those of one rank.
namespace llmtrain::test {

// By the layer's index in the model, then by the token's in the global batch.
using StepChoices = std::map<std::int64_t, TokenChoices::Layer>;

struct RecordedStep {
  StepResult result;  // of the first rank
  StepChoices choices;
};

// Trains the first steps of a recipe on ranks that are threads. Throws Error(internal_error) where two ranks route the
// same token.
std::vector<RecordedStep> recorded_steps(const Recipe& recipe, int ranks, std::size_t steps);

// Tokens of a layer that go elsewhere.
struct MovedTokens {
  std::int64_t narrowly = 0;  // where probabilities within 1e-6 decide
  std::int64_t clearly = 0;
};

// Up to the first layer in which a token moves, in which all moves are counted: what follows it is another training.
struct ChoiceComparison {
  std::size_t same_steps = 0;  // before it
  MovedTokens moved;
};

// Both must have trained the same steps. Throws Error(internal_error) where they have other layers or tokens.
ChoiceComparison compare_choices(std::span<const RecordedStep> got, std::span<const RecordedStep> expected);

}  // namespace llmtrain::test
