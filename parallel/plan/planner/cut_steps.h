// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

struct RunWork {
  double tokens = 0;
  double seconds = 0;
};

// Adds up all training.steps, each with its shape (core/recipe/step_shapes.h): where a curriculum, token
// dropping or a growing batch changes it, steps of at most 17 shapes are simulated, and those of the shapes between lie
// on lines. The plan's simulation, which is that of a whole step, must be done.
RunWork work_of_run(const Plan& plan, const ClusterProfile& profile);

}  // namespace llmtrain
