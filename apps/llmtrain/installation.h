// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace llmtrain::app {

// The path that a variable of the environment holds; empty where it is not set.
std::filesystem::path path_in_environment(const char* variable);

// The folder of the recipes that come with the program, found from where the program lies: recipes of the source tree
// whose build folder it is in, else share/llmtrain/recipes of its installation. Empty if there is neither, as beside a
// copy of the program alone.
std::filesystem::path bundled_recipes();

// Where the training runtime may be, in the order to try: beside the program, then lib/llmtrain of its installation.
std::vector<std::filesystem::path> runtime_folders();

// The recipe file that a command line means: an existing file, else one that comes with the program, by its path
// ("recipes/papers/gpt3-175b.json") or its name ("gpt3-175b"). Anything else is returned as it was written; but throws
// Error(missing_input) with the name that was probably meant where a bundled one is near.
std::string recipe_file_meant(const std::string& written);

// The bundled recipes' files relative to bundled_recipes(), sorted; no profiles of clusters or programs.
std::vector<std::filesystem::path> bundled_recipe_files();

}  // namespace llmtrain::app
