// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/shell/command_table.h"

#include <sstream>

namespace llmtrain::app {

std::vector<const CLI::App*> commands_of(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* command_named(const CLI::App& command, std::string_view name) {
  for (const CLI::App* child : commands_of(command))
    if (child->get_name() == name) return child;
  return nullptr;
}

const CLI::Option* flag_named(const CLI::App& command, const std::string& written) {
  return command.get_option_no_throw(written);
}

std::vector<const CLI::Option*> positionals_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::vector<std::string> words_of_type(const CLI::Option& option) {
  std::vector<std::string> words;
  std::istringstream parts(option.get_type_name());
  for (std::string word; std::getline(parts, word, '|');) words.push_back(word);
  return words;
}

}  // namespace llmtrain::app
