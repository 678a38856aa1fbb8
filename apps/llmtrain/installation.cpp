// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/installation.h"

#include <algorithm>
#include <system_error>

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

}  // namespace

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
  return written;
}

}  // namespace llmtrain::app
