// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/fp8_products.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "apps/llmtrain/machine/profiles.h"
#include "core/base/error.h"
#include "core/recipe/recipe_file.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/planner/fp8_payoff.h"

namespace llmtrain::app {
namespace {

// The patterns of the run in the recipe's folder, which begin with the recipe's own; none where there is no run, or one
// that this recipe does not go on with, as opening the folder will say.
std::optional<std::vector<std::string>> patterns_so_far(const Recipe& recipe) {
  const std::filesystem::path file = recipe_file(recipe.log.directory);
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  try {
    const PrecisionRecipe before = read_recipe(file).precision;
    const std::vector<std::string>& own = recipe.precision.high_precision.parameters;
    const std::vector<std::string>& kept = before.high_precision.parameters;
    const bool begins_alike = kept.size() >= own.size() && std::equal(own.begin(), own.end(), kept.begin());
    return begins_alike && !before.plans_products() ? std::optional(kept) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

Recipe with_settled_products(const Recipe& recipe, std::int64_t devices_per_node) {
  if (!recipe.precision.plans_products()) return recipe;
  const auto so_far = patterns_so_far(recipe);
  if (!so_far) return settle_fp8_products(recipe, profile_of(recipe), devices_per_node);
  Recipe settled = recipe;
  settled.precision.fp8_products = Fp8Products::all;
  settled.precision.high_precision.parameters = *so_far;
  return settled;
}

}  // namespace llmtrain::app
