// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "core/recipe/recipe.h"
#include "parallel/layout/mesh.h"

namespace llmtrain {

// The seconds of a recipe's step; none where a rank has no room for it.
using SecondsWithRoom = std::function<std::optional<double>(const Recipe&)>;

struct KeptStages {
  Recipe recipe;
  double seconds = 0;  // of a step
};

// The recipe, which has room, with the most stages that have room on the device, too, instead of leaving their states
// to the host (memory.offload.resident_stages), where its step, which takes `seconds` without, is shorter with them.
// Asks for as many steps as the number of stages can be halved.
KeptStages keep_more_stages(Recipe recipe, double seconds, const Mesh& mesh, const SecondsWithRoom& step);

}  // namespace llmtrain
