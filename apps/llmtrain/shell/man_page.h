// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace llmtrain::app {

// The man page of a command, in roff with the man macros, from the same table as its --help. `names` leads to it from
// the program: none for the program itself, {"checkpoint", "inspect"}. Throws Error(bad_recipe) for an unknown name.
std::string man_page(const CLI::App& program, const std::vector<std::string>& names);

// Writes the pages of the program and of all its commands into a folder: llmtrain.1, llmtrain-run.1, …
void write_man_pages(const CLI::App& program, const std::string& folder);

}  // namespace llmtrain::app
