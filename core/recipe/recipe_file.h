// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace llmtrain {

// The recipe of the run in that folder.
inline std::filesystem::path recipe_file(const std::filesystem::path& folder) { return folder / "recipe.json"; }

}  // namespace llmtrain
