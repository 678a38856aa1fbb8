// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace llmtrain {

// `path` as an absolute path: relative ones are resolved against `folder`, which is first made absolute and free of
// symbolic links, so that leading "../" can be removed. Never throws for a path that does not exist.
std::string absolute_path(const std::string& path, const std::filesystem::path& folder);

}  // namespace llmtrain
