// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/usage.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <string_view>
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
struct OtherName {
  std::string_view word, meant;
};
constexpr auto other_names = std::to_array<OtherName>({{"train", "run"},
                                                       {"fit", "run"},
                                                       {"pretrain", "run"},
                                                       {"finetune", "run"},
                                                       {"fine-tune", "run"},
                                                       {"resume", "run"},
                                                       {"continue", "run"},
                                                       {"estimate", "plan"},
                                                       {"search", "plan --search"},
                                                       {"check", "validate"},
                                                       {"generate", "sample"},
                                                       {"inference", "sample"},
                                                       {"chat", "sample"},
                                                       {"evaluate", "eval"},
                                                       {"test", "eval"},
                                                       {"inspect", "checkpoint inspect"},
                                                       {"convert", "checkpoint export"},
                                                       {"export", "checkpoint export"},
                                                       {"import", "checkpoint import"},
                                                       {"tokenize", "data tokenize"},
                                                       {"tokenise", "data tokenize"},
                                                       {"preprocess", "data tokenize"},
                                                       {"benchmark", "bench"},
                                                       {"list", "recipes"},
                                                       {"models", "recipes"},
                                                       {"init", "new"},
                                                       {"info", "doctor"},
                                                       {"version", "--version"}});

std::string unknown_command(const CLI::App& command, const std::string& word) {
  const auto names = command_names(command);
  auto meant = nearest_word(word, names);
  std::string text = "\"" + word + "\" is not a command";
  const bool is_program = command.get_parent() == nullptr;
  if (is_program) {
    if (word.ends_with(".json")) return text + "; did you mean \"run " + word + "\"?";
    for (const auto& [other, ours] : other_names)
      if (word == other) meant = ours;
  }
  if (!meant.empty()) return text + "; did you mean \"" + std::string(meant) + "\"?";
  // The program has more commands than anybody reads in a line.
  return is_program ? text : text + fmt::format("; the commands are {}", fmt::join(names, ", "));
}

// What a command does not know of its arguments, in the order in which they were given.
std::string unexpected(const CLI::App& command, const std::vector<std::string>& arguments) {
  const std::string& first = arguments.front();
  if (!command_names(command).empty()) return first + " needs a command before it";
  if (first.starts_with('-')) return "there is no flag " + first;
  return fmt::format("{} {} not expected", fmt::join(arguments, " "), arguments.size() == 1 ? "was" : "were");
}

[[noreturn]] void refuse(const CommandLine& line, std::string text) {
  // One line, as all errors.
  std::replace(text.begin(), text.end(), '\n', ' ');
  text += text.ends_with('?') ? " See " : "; see ";
  throw Error(ExitCode::bad_recipe, line.name + ": " + text + line.name + " --help");
}

}  // namespace

std::vector<std::string> arguments_meant(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != "help") return arguments;
  arguments.erase(arguments.begin());
  arguments.emplace_back("--help");
  return arguments;
}

int show_help_or_refuse(const CLI::App& program, const CLI::ParseError& stop,
                        const std::vector<std::string>& arguments) {
  const CommandLine line = innermost(program);
  const auto extras = line.command->remaining();
  // CLI11 calls a misspelt command an unexpected argument, or shows the program's help; the nearest name helps more.
  const bool needs_command = !command_names(*line.command).empty();
  if (needs_command && !extras.empty() && !extras.front().starts_with('-')) {
    refuse(line, unknown_command(*line.command, extras.front()));
  }
  if (stop.get_exit_code() == 0) {
    std::ostringstream text;
    program.exit(stop, text, text);
    write_result(text.str());
    return 0;
  }
  const bool is_unknown = dynamic_cast<const CLI::ExtrasError*>(&stop) != nullptr && !extras.empty();
  refuse(line, (is_unknown ? unexpected(*line.command, extras) : std::string(stop.what())) +
                   hint_for(*line.command, extras, arguments));
}

void refuse_unknown_command(const CLI::App& program, const CLI::App& command, const std::string& word) {
  refuse(innermost(program), unknown_command(command, word));
}

void refuse_without_command(const CLI::App& program) {
  const CommandLine line = innermost(program);
  if (line.command->get_parent() == nullptr) refuse(line, "name a command, as in llmtrain run recipes/quickstart.json");
  refuse(line, fmt::format("name a command: {}", fmt::join(command_names(*line.command), ", ")));
}

}  // namespace llmtrain::app
