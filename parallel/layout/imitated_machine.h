// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/recipe.h"

namespace llmtrain {

// What the local backend imitates where the recipe's launch section asks for it, so that layouts and schedules can be
// compared without the machine that they are for: zero everywhere else.

// Seconds of one transformer layer and micro-batch on a rank's own device, at which a pass ends at the earliest. The
// backward has twice the forward's products, and repeats them with full recomputation.
struct ImitatedLayer {
  double forward_seconds = 0;
  double backward_seconds = 0;
};
ImitatedLayer imitated_layer(const Recipe& recipe);

// What the network adds: to a message, or to each hop of a collective's ring, and to each byte that a rank sends.
struct ImitatedLink {
  double hop_seconds = 0;
  double byte_seconds = 0;
};
ImitatedLink imitated_link(const LaunchRecipe& launch);

}  // namespace llmtrain
