// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/installation.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/recipe/hints.h"

namespace llmtrain::app {
namespace {

namespace fs = std::filesystem;

// Empty where /proc is not mounted.
fs::path program_folder() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  return failed ? fs::path() : program.parent_path();
}

bool is_folder(const fs::path& path) {
  std::error_code failed;
  return fs::is_directory(path, failed);
}

// The folders of recipes; clusters and programs beside them hold files of other kinds.
constexpr const char* recipe_folders[] = {"", "models", "papers"};

// The name of a bundled recipe that is the nearest to what was written, or empty.
std::string bundled_name_near(const std::string& written) {
  std::vector<std::string> names;
  for (const fs::path& file : bundled_recipe_files()) names.push_back(file.stem().string());
  const std::vector<std::string_view> words(names.begin(), names.end());
  const std::string name = fs::path(written).stem().string();
  return std::string(nearest_word(name, words));
}

}  // namespace

fs::path path_in_environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : "";
}

fs::path bundled_recipes() {
  const fs::path here = program_folder();
  if (here.empty()) return {};
  // Both tell llmtrain's recipes from another program's folder of that name.
  for (const fs::path& folder :
       {here.parent_path() / "recipes", (here / LLMTRAIN_DATA_FOLDER).lexically_normal() / "recipes"})
    if (is_folder(folder / "clusters") && is_folder(folder / "programs")) return folder;
  return {};
}

std::vector<fs::path> runtime_folders() {
  const fs::path here = program_folder();
  if (here.empty()) return {};
  return {here, (here / LLMTRAIN_LIBRARY_FOLDER).lexically_normal()};
}

std::vector<fs::path> bundled_recipe_files() {
  std::vector<fs::path> files;
  const fs::path root = bundled_recipes();
  for (const char* folder : recipe_folders) {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(root / folder, failed))
      if (entry.path().extension() == ".json") files.push_back(fs::path(folder) / entry.path().filename());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string recipe_file_meant(const std::string& written) {
  std::error_code failed;
  // A file that exists but may not be read is what was meant, too: its reader says what is wrong with it.
  if (written.empty() || fs::exists(fs::symlink_status(written, failed)) || failed == std::errc::permission_denied)
    return written;
  const fs::path root = bundled_recipes();
  if (root.empty() || fs::path(written).is_absolute()) return written;
  for (const fs::path& file : bundled_recipe_files())
    if (written == fs::path("recipes") / file || written == file || written == file.stem())
      return (root / file).string();
  const bool is_setting = written.find('=') != std::string::npos;
  const std::string meant = is_setting ? "--set " + written : bundled_name_near(written);
  if (meant.empty()) return written;
  throw Error(ExitCode::missing_input,
              written + ": is neither a file nor a recipe that comes with the program; did you mean " + meant + "?" +
                  (is_setting ? "" : " llmtrain recipes lists them"));
}

}  // namespace llmtrain::app
