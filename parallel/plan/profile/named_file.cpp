// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/profile/named_file.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/recipe/hints.h"

namespace llmtrain {
namespace {

[[noreturn]] void throw_unknown(const NamingKey& key, const std::string& name, const std::filesystem::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  const std::vector<std::string_view> words(names.begin(), names.end());
  std::string message =
      std::string(key.pointer) + ": \"" + name + "\" is not a " + key.what + " in " + folder.string() + "; available:";
  for (const std::string& known : names) message += ' ' + known + ',';
  if (names.empty()) message += " none,";
  message += " or a path to a file";
  const std::string_view near = nearest_word(name, words);
  if (!near.empty()) message += "; did you mean \"" + std::string(near) + "\"?";
  throw Error(ExitCode::bad_recipe, message);
}

}  // namespace

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::filesystem::path named_file(const NamingKey& key, const std::string& name, const std::filesystem::path& folder) {
  const bool is_file = name.find('/') != std::string::npos || name.ends_with(".json");
  if (is_file) return name;
  std::filesystem::path file = folder / (name + ".json");
  if (!std::filesystem::exists(file)) throw_unknown(key, name, folder);
  return file;
}

}  // namespace llmtrain
