// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/data/samples/dataset.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Settings of `data` that these data make ineffective, or that mean something else than they seem to: a sentence each,
// which begins with the key. `validation` may be null. Reads tokens where data.document_mask keeps documents apart, up
// to the first that ends one, and at most a hundred million of each source.
std::vector<std::string> data_warnings(const Recipe& recipe, const Dataset& train, const Dataset* validation);

}  // namespace llmtrain
