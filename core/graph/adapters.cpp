// SPDX-License-Identifier: Apache-2.0
#include "core/graph/adapters.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/graph/marks/adapter_targets.h"

namespace llmtrain {
namespace {

bool can_be_adapted(const Parameter& parameter) { return parameter.is_layer_matrix && !parameter.has_expert_axis; }

Parameter make(const Parameter& matrix, const std::string& name, std::int64_t rows, std::int64_t columns) {
  constexpr std::size_t suffix = std::string_view("weight").size();
  Parameter parameter;
  parameter.local_name = matrix.local_name.substr(0, matrix.local_name.size() - suffix) + name;
  parameter.shape = {rows, columns};
  parameter.decays = true;
  parameter.is_adapter = true;
  return parameter;
}

// A magnitude for each row; ranks that have parts of the rows see parts of the work on it.
Parameter magnitude_of(const Parameter& matrix) {
  Parameter magnitude = make(matrix, "lora_magnitude", matrix.shape.front(), 1);
  magnitude.shape = {matrix.shape.front()};
  magnitude.decays = false;
  magnitude.initialization = Initialization::zeros;
  if (matrix.split.axis == 1)
    magnitude.sums_over_ranks = true;
  else
    magnitude.split = matrix.split;
  return magnitude;
}

NamePatterns patterns_of(const std::optional<LoraRecipe>& recipe) {
  if (!recipe) return NamePatterns({});
  std::vector<std::vector<std::string>> meanings;
  for (const std::string& target : recipe->targets) meanings.push_back(adapter_patterns(target));
  return {recipe->targets, std::move(meanings)};
}

}  // namespace

Adapters::Adapters(std::optional<LoraRecipe> recipe) : recipe_(std::move(recipe)), targets_(patterns_of(recipe_)) {}

std::vector<Parameter> Adapters::of(const Parameter& matrix) {
  if (!can_be_adapted(matrix) || !targets_.match(matrix.name)) return {};
  const std::int64_t output = matrix.shape.front(), input = matrix.shape.back();
  Parameter a = make(matrix, "lora_a", recipe_->rank, input);
  Parameter b = make(matrix, "lora_b", output, recipe_->rank);
  // The one that shares the split axis is split as the matrix is. Every rank has the other one, and sees of the work on
  // it what passes through its part of the split one.
  (matrix.split.axis == 1 ? a : b).split = matrix.split;
  (matrix.split.axis == 1 ? b : a).sums_over_ranks = true;
  // As a uniform distribution on ±1 ÷ √input has it, from which torch.nn.Linear and PEFT draw.
  a.standard_deviation = 1 / std::sqrt(3 * static_cast<double>(input));
  b.initialization = Initialization::zeros;
  std::vector<Parameter> adapter{std::move(a), std::move(b)};
  if (recipe_->dora) adapter.push_back(magnitude_of(matrix));
  return adapter;
}

void Adapters::require_used() const {
  if (recipe_ && recipe_->targets.empty())
    throw Error(ExitCode::bad_recipe, "/model/lora/targets: is empty; must name matrices to adapt");
  targets_.require_used("/model/lora/targets", "matrix of a layer outside of its routed experts");
}

ModelRecipe without_adapters(ModelRecipe model) {
  model.lora.reset();
  return model;
}

}  // namespace llmtrain
