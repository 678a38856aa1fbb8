// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/recipe/hints.h"
#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {
namespace {

bool is_file_name(const std::string& profile) {
  return profile.find('/') != std::string::npos || profile.ends_with(".json");
}

[[noreturn]] void throw_unknown(const std::string& profile, const std::filesystem::path& folder) {
  const std::vector<std::string> names = profile_names(folder);
  const std::vector<std::string_view> words(names.begin(), names.end());
  std::string message = "/cluster/profile: \"" + profile + "\" is not a profile in " + folder.string() + "; available:";
  for (const std::string& name : names) message += ' ' + name + ',';
  if (names.empty()) message += " none,";
  message += " or a path to a file";
  const std::string_view near = nearest_word(profile, words);
  if (!near.empty()) message += "; did you mean \"" + std::string(near) + "\"?";
  throw Error(ExitCode::bad_recipe, message);
}

}  // namespace

std::vector<std::string> profile_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

ClusterProfile load_profile(const std::string& profile, const std::filesystem::path& folder) {
  if (is_file_name(profile)) return parse_profile(read_file(profile), profile);
  if (profile == "auto") {
    // local.json is this machine's own measurement; cpu.json is the stated default until there is one.
    const bool calibrated = std::filesystem::exists(folder / "local.json");
    return load_profile(calibrated ? "local" : "cpu", folder);
  }
  const std::filesystem::path file = folder / (profile + ".json");
  if (!std::filesystem::exists(file)) throw_unknown(profile, folder);
  return parse_profile(read_file(file), file.string());
}

}  // namespace llmtrain
