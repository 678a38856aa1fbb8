// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

// `--set pointer.path=JSON`, repeatable.
void add_set_flag(CLI::App& command, std::vector<Override>& overrides);

// The override that sets `pointer_path` to a string, whatever its content.
Override text_override(const std::string& pointer_path, const std::string& text);

// Flag values: numbers of at least 0, without "nan" and "inf"; whole numbers that fit 64 bits.
CLI::Validator not_negative();
CLI::Validator whole_number();
CLI::Validator whole_number_not_negative();

}  // namespace llmtrain::app
