// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// What to evaluate: each of `paths`, with the documents of rows at `key`, or without any the recipe's validation data,
// else, with a warning, its training data. Texts are rolling unless `is_packed`; token files and conversations are
// packed. Throws Error(missing_input) that begins with `checkpoint` where there is nothing.
std::vector<EvaluationData> evaluation_data(const Recipe& recipe, const std::string& checkpoint,
                                            const std::vector<std::string>& paths, const std::string& key,
                                            bool is_packed);

}  // namespace llmtrain::app
