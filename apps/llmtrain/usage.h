// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace llmtrain::app {

// Those that "help plan" stands for, "plan --help"; other arguments unchanged.
std::vector<std::string> arguments_meant(std::vector<std::string> arguments);

// After a stopped parse of the arguments: writes the requested help or version and returns 0, or throws
// Error(bad_recipe) with one line that says what is wrong with the command line.
int show_help_or_refuse(const CLI::App& program, const CLI::ParseError& stop,
                        const std::vector<std::string>& arguments);

// Throws Error(bad_recipe): `command` has no command `word`; the nearest one is suggested.
[[noreturn]] void refuse_unknown_command(const CLI::App& program, const CLI::App& command, const std::string& word);

// Throws Error(bad_recipe): the command line names no command, or one that needs another (`llmtrain checkpoint`).
[[noreturn]] void refuse_without_command(const CLI::App& program);

}  // namespace llmtrain::app
