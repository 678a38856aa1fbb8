// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/spdlog.h>

#include <filesystem>

namespace llmtrain {

enum class Verbosity { quiet, normal, verbose };

// Whether people want colours on terminals: not where NO_COLOR is set to anything but an empty text (no-color.org).
bool wants_colours();

// The program's logger: messages go to standard error, results (which are not log lines) to standard output.
// Colours only on a terminal and where they are wanted.
spdlog::logger& log();

// Sets how much the console shows: quiet warnings and errors, normal also information, verbose also debug lines.
void set_verbosity(Verbosity verbosity);

// From now on what is logged to `logger` also goes to `file` (appended, every level, with times). Throws
// Error(cannot_write).
void log_to_file(const std::filesystem::path& file, spdlog::logger& logger = log());

}  // namespace llmtrain
