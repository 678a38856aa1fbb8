// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/machine/profiles.h"

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "apps/llmtrain/installation.h"
#include "apps/llmtrain/machine/machine_profile.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/machine/gpu.h"
#include "core/machine/host_memory.h"
#include "parallel/plan/profile/gpu_profile.h"
#include "parallel/plan/profile/program.h"

namespace llmtrain::app {
namespace {

std::filesystem::path recipes_folder() {
  const auto bundled = bundled_recipes();
  return bundled.empty() ? std::filesystem::path("recipes") : bundled;
}

std::filesystem::path folder_of(const char* name, const char* variable) {
  const auto named = path_in_environment(variable);
  return named.empty() ? recipes_folder() / name : named;
}

// A copy of the program alone has no folders to look in: a list of what they hold would only mislead.
void require_folder(const std::filesystem::path& folder, const char* variable) {
  std::error_code failed;
  if (std::filesystem::is_directory(folder, failed)) return;
  throw Error(ExitCode::missing_input,
              folder.string() + ": no such folder; llmtrain finds it from its build folder or installation, else set " +
                  variable + " to recipes/" + folder.filename().string() + " of llmtrain's sources");
}

ClusterProfile gpu_profile_of(const std::vector<std::string>& gpus) {
  const auto calibrated = calibrated_profile();
  if (path_exists(calibrated)) {
    ClusterProfile measured = load_profile(std::filesystem::absolute(calibrated).string(), profiles_folder());
    if (measured.device.kind == DeviceKind::cuda) return measured;
  }
  std::string_view name = gpu_profile(gpus.front());
  if (name.empty()) {
    name = assumed_gpu_profile;
    static std::once_flag once;
    std::call_once(once, [&] {
      log().warn("plans assume the profile {}, as there is none of {}; llmtrain calibrate --device cuda makes one",
                 name, gpus.front());
    });
  }
  require_folder(profiles_folder(), "LLMTRAIN_PROFILES");
  ClusterProfile profile = load_profile(std::string(name), profiles_folder());
  profile.node.devices = static_cast<std::int64_t>(gpus.size());
  return profile;
}

// The profile of this machine: wherever its figures are from, it has so many GPUs, or so much memory.
ClusterProfile automatic_profile(DeviceKind device) {
  if (!trains_on_processor(device)) {
    const auto gpus = visible_gpus(gpu_models(), std::getenv("CUDA_VISIBLE_DEVICES"));
    if (!gpus.empty()) return gpu_profile_of(gpus);
  }
  const auto measured = profile_of_machine();
  if (measured.empty()) require_folder(profiles_folder(), "LLMTRAIN_PROFILES");
  // With a slash it is a file and not a name.
  ClusterProfile profile =
      load_profile(measured.empty() ? "auto" : std::filesystem::absolute(measured).string(), profiles_folder());
  if (profile.device.kind == DeviceKind::cpu) profile.device.memory_bytes = static_cast<double>(host_memory().total);
  return profile;
}

ClusterProfile named_profile(const std::string& name) {
  if (name.find('/') == std::string::npos && !name.ends_with(".json"))
    require_folder(profiles_folder(), "LLMTRAIN_PROFILES");
  return load_profile(name, profiles_folder());
}

}  // namespace

std::filesystem::path profiles_folder() { return folder_of("clusters", "LLMTRAIN_PROFILES"); }

std::filesystem::path programs_folder() { return folder_of("programs", "LLMTRAIN_PROGRAMS"); }

std::filesystem::path scores_folder() { return recipes_folder() / "scores"; }

std::filesystem::path published_folder() { return recipes_folder() / "published"; }

ClusterProfile profile_of(const Recipe& recipe) {
  const std::string& name = recipe.cluster.profile;
  ClusterProfile profile = name == "auto" ? automatic_profile(recipe.cluster.device) : named_profile(name);
  profile.program = load_program(recipe.cluster.program, programs_folder(), profile.device.kind);
  profile.accuracy = accuracy_of(profile, scores_folder());
  return profile;
}

}  // namespace llmtrain::app
