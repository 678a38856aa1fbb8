// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/key_table.h"

#include <limits>

namespace llmtrain {

void describe_keys(KeyVisitor& keys, Recipe& recipe) {
  keys.text({"$schema", "JSON Schema for editors to check the recipe against; llmtrain does not read it."},
            recipe.schema, {TextKind::schema_link});
  keys.text({"name", "Name of the run and, by default, of its run directory."}, recipe.name, {TextKind::name});
  keys.text({"description", "What the recipe is for; not read by llmtrain."}, recipe.description, {});
  keys.integer(
      {"seed",
       "Random seed of initial weights, data order and dropout masks; their values do not depend on the layout."},
      recipe.seed, {0, std::numeric_limits<std::int64_t>::max()});
  describe_model(keys, recipe.model);
  describe_data(keys, recipe.data);
  describe_batch(keys, recipe.batch, recipe.model);
  describe_training(keys, recipe.training);
  describe_layout(keys, recipe);
  describe_running(keys, recipe);
}

}  // namespace llmtrain
