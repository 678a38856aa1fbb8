// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace llmtrain {

// The rest of a file's first line that begins with `key`, after its colon and without blanks at its ends, in files like
// those of /proc; empty where there is none.
std::string value_in(const std::filesystem::path& file, std::string_view key);

}  // namespace llmtrain
