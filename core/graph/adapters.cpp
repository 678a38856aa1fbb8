// SPDX-License-Identifier: Apache-2.0
#include "core/graph/adapters.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/graph/high_precision.h"

namespace llmtrain {
namespace {

bool can_be_adapted(const Parameter& parameter) { return parameter.is_layer_matrix && !parameter.has_expert_axis; }

Parameter make(const Parameter& matrix, const std::string& name, ParameterRole role, std::int64_t rows,
               std::int64_t columns) {
  constexpr std::size_t suffix = std::string_view("weight").size();
  Parameter parameter;
  parameter.name = matrix.name.substr(0, matrix.name.size() - suffix) + name;
  parameter.role = role;
  parameter.shape = {rows, columns};
  parameter.adapts = matrix.role;
  parameter.decays = true;
  return parameter;
}

}  // namespace

Adapters::Adapters(std::optional<LoraRecipe> recipe)
    : recipe_(std::move(recipe)), is_used_(recipe_ ? recipe_->targets.size() : 0) {}

std::vector<Parameter> Adapters::of(const Parameter& matrix) {
  if (!recipe_ || !can_be_adapted(matrix)) return {};
  bool is_target = false;
  for (std::size_t i = 0; i < is_used_.size(); ++i) {
    if (!matches(recipe_->targets[i], matrix.name)) continue;
    is_used_[i] = is_target = true;
  }
  if (!is_target) return {};
  const std::int64_t output = matrix.shape.front(), input = matrix.shape.back();
  Parameter a = make(matrix, "lora_a", ParameterRole::adapter_input, recipe_->rank, input);
  Parameter b = make(matrix, "lora_b", ParameterRole::adapter_output, output, recipe_->rank);
  // The matrix that shares the split axis is split with it, and every rank has the other one.
  (matrix.shard_axis == ShardAxis::input ? a : b).shard_axis = matrix.shard_axis;
  // Of a uniform distribution on ±1 ÷ √input, which is that of torch.nn.Linear and PEFT.
  a.standard_deviation = 1 / std::sqrt(3 * static_cast<double>(input));
  b.initialization = Initialization::zeros;
  return {std::move(a), std::move(b)};
}

void Adapters::require_used() const {
  if (recipe_ && recipe_->targets.empty())
    throw Error(ExitCode::bad_recipe, "/model/lora/targets: is empty; must name matrices to adapt");
  for (std::size_t i = 0; i < is_used_.size(); ++i)
    if (!is_used_[i])
      throw Error(ExitCode::bad_recipe,
                  fmt::format("/model/lora/targets/{}: \"{}\" matches no matrix of a layer outside of its routed "
                              "experts; must match names such as \"layers.0.attention.query.weight\", with * for any "
                              "text",
                              i, recipe_->targets[i]));
}

ModelRecipe without_adapters(ModelRecipe model) {
  model.lora.reset();
  return model;
}

}  // namespace llmtrain
