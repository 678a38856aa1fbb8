// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/shell/completion.h"
#include "apps/llmtrain/shell/man_page.h"
#include "apps/llmtrain/standard_streams.h"

namespace llmtrain::app {

void add_completion(CLI::App& program, Action& action) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("completion", "Prints a script that completes commands, flags and keys");
  choose_from(command->add_option("SHELL", *shell, "Your shell"), {"bash", "zsh", "fish"})->required();
  command->footer(
      "Examples:\n  llmtrain completion bash > ~/.local/share/bash-completion/completions/llmtrain\n"
      "  llmtrain completion zsh > ~/.zfunc/_llmtrain\n"
      "  llmtrain completion fish > ~/.config/fish/completions/llmtrain.fish");
  command->callback([shell, &action] {
    action = [shell] {
      write_script(completion_script(*shell));
      return 0;
    };
  });
}

void add_man(CLI::App& program, Action& action) {
  struct ManOptions {
    std::vector<std::string> names;
    std::optional<std::string> folder;
  };
  const auto options = std::make_shared<ManOptions>();
  CLI::App* command = program.add_subcommand("man", "Prints the man page of the program or of a command");
  CLI::Option* names =
      command->add_option("COMMAND", options->names, "The command, as in checkpoint inspect")->type_name("");
  command->add_option("--all", options->folder, "Write all pages into this folder instead")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory.description(""))
      ->excludes(names);
  command->footer("Examples:\n  llmtrain man plan | man -l -\n  llmtrain man --all ~/.local/share/man/man1");
  command->callback([options, &program, &action] {
    action = [options, &program] {
      if (options->folder) {
        write_man_pages(program, *options->folder);
      } else {
        write_script(man_page(program, options->names));
      }
      return 0;
    };
  });
}

}  // namespace llmtrain::app
