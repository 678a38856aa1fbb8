// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/profile/named_file.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

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

// Those of its folders as well.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  return files;
}

}  // namespace

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const std::filesystem::path& file : files_in(folder)) names.push_back(file.stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::filesystem::path named_file(const NamingKey& key, const std::string& name, const std::filesystem::path& folder) {
  const bool is_file = name.find('/') != std::string::npos || name.ends_with(".json");
  if (is_file) return name;
  std::filesystem::path file = folder / (name + ".json");
  if (std::filesystem::exists(file)) return file;
  for (std::filesystem::path& other : files_in(folder))
    if (other.stem() == name) return std::move(other);
  throw_unknown(key, name, folder);
}

}  // namespace llmtrain
