// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/engine/data/run_data.h"

namespace llmtrain {

// Settings of `data` that these data make ineffective, or that mean something else than they seem to: a sentence each,
// which begins with the key. Reads tokens where data.document_mask keeps documents apart, up to the first that ends
// one, and at most a hundred million of each source.
std::vector<std::string> data_warnings(const Recipe& recipe, const RunData& read);

}  // namespace llmtrain
