// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/paths.h"

#include <system_error>

namespace llmtrain {

std::string absolute_path(const std::string& path, const std::filesystem::path& folder) {
  if (path.starts_with('/')) return path;
  const auto from = folder.empty() ? std::filesystem::path(".") : folder;
  std::error_code failed;
  auto result = std::filesystem::weakly_canonical(from, failed);
  if (failed || !result.is_absolute()) result = std::filesystem::absolute(from, failed);
  const std::filesystem::path relative(path);
  auto part = relative.begin();
  // Only leading dots: after a symbolic link ".." is not the folder that is written before it.
  for (; part != relative.end() && (*part == "." || *part == ".."); ++part) {
    if (*part == "..") result = result.parent_path();
  }
  for (; part != relative.end(); ++part) result /= *part;
  return result.string();
}

}  // namespace llmtrain
