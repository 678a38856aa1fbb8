// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"

namespace llmtrain::test {

// A small recipe with this folder as its run directory.
Recipe run_recipe(const std::filesystem::path& directory, std::vector<Override> overrides = {});

// Exit code and message of the error that the call throws.
std::string error_of(const std::function<void()>& call);

}  // namespace llmtrain::test
