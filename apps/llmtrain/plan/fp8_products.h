// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/recipe.h"

namespace llmtrain::app {

// A recipe that is about to run, with precision.fp8_products "auto" settled: in a folder that has a run, as that run
// was trained so far, whatever the cluster and the layout are now, because all steps of a run compute alike; else as
// the plan says (settle_fp8_products()). Another recipe is returned as it is. Throws Error where that takes a profile
// and there is none.
Recipe with_settled_products(const Recipe& recipe, std::int64_t devices_per_node);

}  // namespace llmtrain::app
