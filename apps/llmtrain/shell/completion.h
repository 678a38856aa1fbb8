// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace llmtrain::app {

enum class CompletedFiles { none, files, folders };

struct Completion {
  std::string text;  // the whole word; one that ends with "=" goes on with a value
  std::string help;  // one line, may be empty
};

struct Completions {
  std::vector<Completion> words;
  CompletedFiles files = CompletedFiles::none;  // what the shell adds by itself
};

// How the last of `words` can go on, the words before it being the rest of a command line after the program's name.
// Commands, flags and their values come from the program's own table, keys and their values from the recipe's schema.
Completions complete(const CLI::App& program, const std::vector<std::string>& words);

// Those as the scripts of `llmtrain completion` read them: a line "WORD<tab>HELP" each, then ":files" or ":folders".
std::string completion_lines(const Completions& completions);

// The script of a shell: "bash", "zsh" or "fish".
std::string completion_script(const std::string& shell);

}  // namespace llmtrain::app
