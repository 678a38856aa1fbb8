// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/layout/mesh.h"

namespace llmtrain {

// The recipes that differ from this one, which runs on this mesh, in one decision: ZeRO stage, recomputation, attention
// kernel, micro-batch, schedule, loops, balance, or a degree that is doubled or halved while the world's size stays.
// The same model is trained on the same batches; that a neighbour keeps the rules of recipes is not checked.
std::vector<Recipe> neighbours(const Recipe& recipe, const Mesh& mesh);

// What follows --set on a command line that makes the other of the recipe, "parallel.tensor=2 --set parallel.data=4",
// in the order of the key table. It has this effect whether or not the recipe's file states the keys whose defaults
// follow from others.
std::string change_words(const Recipe& recipe, const Recipe& other);

}  // namespace llmtrain
