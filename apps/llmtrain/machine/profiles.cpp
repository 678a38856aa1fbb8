// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/machine/profiles.h"

#include <string>
#include <system_error>

#include "apps/llmtrain/installation.h"
#include "apps/llmtrain/machine/machine_profile.h"
#include "core/base/error.h"
#include "core/machine/host_memory.h"
#include "parallel/plan/profile/program.h"

namespace llmtrain::app {
namespace {

std::filesystem::path folder_of(const char* name, const char* variable) {
  if (const auto named = path_in_environment(variable); !named.empty()) return named;
  const auto bundled = bundled_recipes();
  return (bundled.empty() ? std::filesystem::path("recipes") : bundled) / name;
}

// A copy of the program alone has no folders to look in: a list of what they hold would only mislead.
void require_folder(const std::filesystem::path& folder, const char* variable) {
  std::error_code failed;
  if (std::filesystem::is_directory(folder, failed)) return;
  throw Error(ExitCode::missing_input,
              folder.string() + ": no such folder; llmtrain finds it from its build folder or installation, else set " +
                  variable + " to recipes/" + folder.filename().string() + " of llmtrain's sources");
}

}  // namespace

std::filesystem::path profiles_folder() { return folder_of("clusters", "LLMTRAIN_PROFILES"); }

std::filesystem::path programs_folder() { return folder_of("programs", "LLMTRAIN_PROGRAMS"); }

std::filesystem::path scores_folder() {
  const auto bundled = bundled_recipes();
  return (bundled.empty() ? std::filesystem::path("recipes") : bundled) / "scores";
}

ClusterProfile profile_of(const Recipe& recipe) {
  const auto measured = recipe.cluster.profile == "auto" ? profile_of_machine() : std::filesystem::path();
  // With a slash it is a file and not a name.
  const std::string name = measured.empty() ? recipe.cluster.profile : std::filesystem::absolute(measured).string();
  if (name.find('/') == std::string::npos && !name.ends_with(".json"))
    require_folder(profiles_folder(), "LLMTRAIN_PROFILES");
  ClusterProfile profile = load_profile(name, profiles_folder());
  // Wherever its figures are from, the device of "auto" is this machine.
  if (recipe.cluster.profile == "auto" && profile.device.kind == DeviceKind::cpu)
    profile.device.memory_bytes = static_cast<double>(host_memory().total);
  profile.program = load_program(recipe.cluster.program, programs_folder());
  profile.accuracy = accuracy_of(profile, scores_folder());
  return profile;
}

}  // namespace llmtrain::app
