// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/llmtrain/flag_hints.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/recipe/hints.h"

namespace llmtrain::app {
namespace {

struct CommandLine {
  const CLI::App* command;  // the innermost that was named
  std::string name;         // "llmtrain checkpoint inspect"
};

CommandLine innermost(const CLI::App& program) {
  CommandLine line{&program, program.get_name()};
  while (!line.command->get_subcommands().empty()) {
    line.command = line.command->get_subcommands().front();
    line.name += " " + line.command->get_name();
  }
  return line;
}

std::vector<std::string_view> command_names(const CLI::App& command) {
  std::vector<std::string_view> names;
  for (const CLI::App* child : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(child->get_name());
  }
  return names;
}

// What other programs call these commands.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> other_names = {{{"train", "run"},
                                                                                        {"fit", "run"},
                                                                                        {"pretrain", "run"},
                                                                                        {"estimate", "plan"},
                                                                                        {"check", "validate"},
                                                                                        {"generate", "sample"},
                                                                                        {"evaluate", "eval"},
                                                                                        {"test", "eval"},
                                                                                        {"export", "checkpoint export"},
                                                                                        {"init", "new"},
                                                                                        {"help", "--help"},
                                                                                        {"version", "--version"}}};

std::string unknown_command(const CLI::App& command, const std::string& word) {
  const auto names = command_names(command);
  auto meant = nearest_word(word, names);
  std::string text = "\"" + word + "\" is not a command";
  if (command.get_parent() == nullptr) {
    if (word.ends_with(".json")) return text + "; did you mean \"run " + word + "\"?";
    for (const auto& [other, ours] : other_names)
      if (word == other) meant = ours;
  }
  if (!meant.empty()) return text + "; did you mean \"" + std::string(meant) + "\"?";
  text += "; the commands are ";
  for (const auto name : names) text.append(name).append(name == names.back() ? "" : ", ");
  return text;
}

[[noreturn]] void refuse(const CommandLine& line, std::string text) {
  // One line, as all errors.
  std::replace(text.begin(), text.end(), '\n', ' ');
  throw Error(ExitCode::bad_recipe, line.name + ": " + text + "; see " + line.name + " --help");
}

}  // namespace

int show_help_or_refuse(const CLI::App& program, const CLI::ParseError& stop) {
  const CommandLine line = innermost(program);
  if (stop.get_exit_code() == 0) {
    std::ostringstream text;
    program.exit(stop, text, text);
    write_result(text.str());
    return 0;
  }
  const auto extras = line.command->remaining();
  // CLI11 calls a misspelt command an unexpected argument; the nearest name is more helpful.
  const bool needs_command = !command_names(*line.command).empty();
  if (needs_command && !extras.empty() && !extras.front().starts_with('-')) {
    refuse(line, unknown_command(*line.command, extras.front()));
  }
  refuse(line, stop.what() + hint_for(*line.command, extras));
}

void refuse_unknown_command(const CLI::App& program, const CLI::App& command, const std::string& word) {
  refuse(innermost(program), unknown_command(command, word));
}

void refuse_without_command(const CLI::App& program) {
  std::string names;
  const CommandLine line = innermost(program);
  for (const auto name : command_names(*line.command)) names.append(names.empty() ? "" : ", ").append(name);
  refuse(line, "name a command: " + names);
}

}  // namespace llmtrain::app
