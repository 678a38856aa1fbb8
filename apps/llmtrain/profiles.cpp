// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/profiles.h"

#include <cstdlib>
#include <system_error>

#include "parallel/plan/cost/program.h"

namespace llmtrain::app {
namespace {

std::filesystem::path folder_of(const char* name, const char* variable) {
  const char* named = std::getenv(variable);
  if (named != nullptr && *named != '\0') return named;
  std::error_code failed;
  // build/llmtrain finds the recipes of its own source tree, from any working directory.
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  const auto beside = program.parent_path().parent_path() / "recipes" / name;
  if (!failed && std::filesystem::is_directory(beside, failed)) return beside;
  return std::filesystem::path("recipes") / name;
}

}  // namespace

std::filesystem::path profiles_folder() { return folder_of("clusters", "LLMTRAIN_PROFILES"); }

ClusterProfile profile_of(const Recipe& recipe) {
  ClusterProfile profile = load_profile(recipe.cluster.profile, profiles_folder());
  profile.program = load_program(recipe.cluster.program, folder_of("programs", "LLMTRAIN_PROGRAMS"));
  return profile;
}

}  // namespace llmtrain::app
