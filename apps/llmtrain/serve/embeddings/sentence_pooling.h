// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "parallel/runtime/text_service.h"

namespace llmtrain::app {

// The configuration of the module that pools in a folder of sentence-transformers (modules.json); none in a folder
// without one. Throws Error(bad_data) for a folder with modules that change vectors in other ways than by pooling them
// and dividing them by their length.
std::optional<std::filesystem::path> pooling_config_in(const std::filesystem::path& folder);

// What such a file says. Throws Error(bad_data) that names a way of pooling which is not one of these.
TextPooling read_pooling(const std::filesystem::path& file);

}  // namespace llmtrain::app
