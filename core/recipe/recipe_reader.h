// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/json/document.h"
#include "core/json/problems.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The recipe of a document, before any rule between keys is applied: checks every value on its own, fills in defaults,
// reports unknown and missing keys. A wrong value leaves its member's default and one problem. `folder` is the base of
// relative paths in the recipe itself; those from `--set` are relative to the working directory.
Recipe read_keys(const Document& document, const std::filesystem::path& folder, Problems& problems);

}  // namespace llmtrain
