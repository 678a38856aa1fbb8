// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace llmtrain {

// Names of the .json files in a folder and its folders, sorted. Empty if the folder does not exist.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// A key of a recipe that names a file, and what the file is, for messages.
struct NamingKey {
  const char* pointer;  // "/cluster/profile"
  const char* what;     // "profile"
};

// The file that a recipe's value names: a path (with a slash or ending in .json), or a name in `folder`. Throws
// Error(bad_recipe) for a name that the folder and its folders do not have, suggesting the nearest one.
std::filesystem::path named_file(const NamingKey& key, const std::string& name, const std::filesystem::path& folder);

}  // namespace llmtrain
