// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain::test {

// A GPT of six layers, with four micro-batches on one A100.
Recipe six_layers(const std::vector<Override>& overrides = {});

Plan plan_of(const Recipe& recipe);

}  // namespace llmtrain::test
