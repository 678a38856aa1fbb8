// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/profiles.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>

#include "apps/llmtrain/installation.h"
#include "core/base/error.h"
#include "core/base/host_memory.h"
#include "parallel/plan/cost/program.h"

namespace llmtrain::app {
namespace {

std::filesystem::path in_environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : "";
}

std::filesystem::path folder_of(const char* name, const char* variable) {
  if (const auto named = in_environment(variable); !named.empty()) return named;
  const auto bundled = bundled_recipes();
  return (bundled.empty() ? std::filesystem::path("recipes") : bundled) / name;
}

// The user's own settings, by the XDG Base Directory Specification; empty for a user without a home.
std::filesystem::path user_folder() {
  // "All paths set in these environment variables must be absolute"; others are to be ignored.
  if (const auto named = in_environment("XDG_CONFIG_HOME"); named.is_absolute()) return named / "llmtrain";
  const auto home = in_environment("HOME");
  return home.is_absolute() ? home / ".config" / "llmtrain" : std::filesystem::path();
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

std::filesystem::path calibrated_profile() {
  const auto shared = profiles_folder();
  const auto own = user_folder();
  std::error_code failed;
  const bool is_locked = std::filesystem::is_directory(shared, failed) && ::access(shared.c_str(), W_OK) != 0;
  return (is_locked && !own.empty() ? own : shared) / "local.json";
}

ClusterProfile profile_of(const Recipe& recipe) {
  const auto measured = calibrated_profile();
  std::error_code failed;
  const bool is_measured = recipe.cluster.profile == "auto" && std::filesystem::exists(measured, failed);
  // With a slash it is a file and not a name.
  const std::string name = is_measured ? std::filesystem::absolute(measured).string() : recipe.cluster.profile;
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
