// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace llmtrain {

// Of a file like those of /proc, the rest of the first line that begins with `key`, after its colon and without blanks
// at its ends; empty where there is none.
std::string value_in(const std::filesystem::path& file, std::string_view key);

}  // namespace llmtrain
