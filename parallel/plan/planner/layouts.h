// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "core/recipe/recipe.h"
#include "parallel/layout/mesh.h"

namespace llmtrain {

// Calls `visit` with every layout that a search considers: the recipe with other degrees, ZeRO stage, schedule, loops,
// micro-batch, recompute and FP8 level for a world of the same size. Layouts that are impossible by their sizes are
// skipped; make_mesh() may refuse some of the others.
void for_each_layout(const Recipe& recipe, const Mesh& mesh, const std::function<void(const Recipe&)>& visit);

}  // namespace llmtrain
