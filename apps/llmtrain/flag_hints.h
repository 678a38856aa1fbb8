// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace llmtrain::app {

// What was probably meant by those of the arguments that a command does not know, as "; did you mean …?", or nothing: a
// flag of the command, a key of the recipe as in "--steps 20", a key whose "=" is missing, or the recipe after a flag.
std::string hint_for(const CLI::App& command, const std::vector<std::string>& unknown,
                     const std::vector<std::string>& arguments);

}  // namespace llmtrain::app
