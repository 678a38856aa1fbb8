// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/profiles.h"

#include <cstdlib>
#include <system_error>

namespace llmtrain::app {

std::filesystem::path profiles_folder() {
  const char* named = std::getenv("LLMTRAIN_PROFILES");
  if (named != nullptr && *named != '\0') return named;
  std::error_code failed;
  // build/llmtrain finds the profiles of its own source tree, from any working directory.
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  const auto beside = program.parent_path().parent_path() / "recipes" / "clusters";
  if (!failed && std::filesystem::is_directory(beside, failed)) return beside;
  return std::filesystem::path("recipes") / "clusters";
}

ClusterProfile profile_of(const Recipe& recipe) { return load_profile(recipe.cluster.profile, profiles_folder()); }

}  // namespace llmtrain::app
