// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain::app {

// What completion and man pages read from the table of commands and flags.

std::vector<const CLI::App*> commands_of(const CLI::App& command);

// The command below `command` of that name, or null.
const CLI::App* command_named(const CLI::App& command, std::string_view name);

// The flag written "--name" or "-n", or null.
const CLI::Option* flag_named(const CLI::App& command, const std::string& written);

std::vector<const CLI::Option*> positionals_of(const CLI::App& command);

// The parts of "auto|never|PATH".
std::vector<std::string> words_of_type(const CLI::Option& option);

}  // namespace llmtrain::app
