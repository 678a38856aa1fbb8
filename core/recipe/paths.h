// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace llmtrain {

// `path` as an absolute path: relative ones lie in `folder`, which is made absolute and free of symbolic links first,
// so that a leading "../" can be taken off. Never throws for what is not there.
std::string absolute_path(const std::string& path, const std::filesystem::path& folder);

}  // namespace llmtrain
