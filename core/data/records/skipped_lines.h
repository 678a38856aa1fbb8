// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/data/records/bad_lines.h"

namespace llmtrain {

// What was skipped of the text that a token file was made of is kept beside it, as JSON: a.skipped.json of a.bin.
std::filesystem::path skipped_lines_file(const std::filesystem::path& token_file);

// Replaces the file, or removes it where nothing was skipped. Throws Error(cannot_write).
void keep_skipped_lines(const std::filesystem::path& token_file, const BadLines& lines);

// None where there is no such file, or another one.
BadLines kept_skipped_lines(const std::filesystem::path& token_file);

}  // namespace llmtrain
