// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/llmtrain/checkpoint/checkpoint_diff.h"
#include "apps/llmtrain/checkpoint/checkpoint_exchange.h"
#include "apps/llmtrain/checkpoint/checkpoint_inspect.h"
#include "apps/llmtrain/checkpoint/checkpoint_source.h"
#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"

namespace llmtrain::app {
namespace {

struct CheckpointOptions {
  std::string source;
  std::string other;
  bool json = false;
};

int inspect(const CheckpointOptions& options) {
  const FoundCheckpoint found = find_source(options.source);
  warn_of_damaged(found.damaged);
  options.json ? write_json(describe_as_json(found.reader)) : write_result(describe_as_text(found.reader));
  return 0;
}

// A damaged checkpoint beside an intact one is still an error here: finding damage is this command's purpose.
int verify(const CheckpointOptions& options) {
  const FoundCheckpoint found = find_source(options.source);
  warn_of_damaged(found.damaged);
  found.reader.verify();
  write_result(found.reader.folder().string() + ": ok\n");
  return static_cast<int>(found.damaged.empty() ? ExitCode::done : ExitCode::bad_data);
}

// Damage would show as a difference, so it is looked for first.
CheckpointReader verified(const std::string& source) {
  const FoundCheckpoint found = find_source(source);
  warn_of_damaged(found.damaged);
  found.reader.verify();
  return found.reader;
}

int show_difference(const CheckpointOptions& options) {
  const CheckpointReader first = verified(options.source), second = verified(options.other);
  const CheckpointDifference difference = compare_checkpoints(first, second);
  options.json ? write_json(difference_as_json(first, second, difference))
               : write_result(difference_as_text(first, second, difference));
  return 0;
}

using Body = int (*)(const CheckpointOptions&);

CLI::App* add_command(CLI::App& parent, const char* name, const char* help,
                      const std::shared_ptr<CheckpointOptions>& options, Body body, Action& action) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->add_option("SOURCE", options->source, "A run's directory (its newest checkpoint) or a checkpoint's folder")
      ->required()
      ->type_name("");
  command->callback([options, body, &action] { action = [options, body] { return body(*options); }; });
  return command;
}

}  // namespace

void add_checkpoint(CLI::App& program, Action& action) {
  const auto options = std::make_shared<CheckpointOptions>();
  CLI::App* parent =
      program.add_subcommand("checkpoint", "Describes, verifies, compares, exports and imports checkpoints");
  // 0 is allowed here, so that refuse_without_command() can list the commands.
  parent->require_subcommand(0, 1);
  parent->footer("Example:\n  llmtrain checkpoint inspect runs/quickstart");

  CLI::App* command = add_command(*parent, "inspect", "Shows what a checkpoint contains", options, inspect, action);
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("Example:\n  llmtrain checkpoint inspect runs/quickstart");

  command = add_command(*parent, "verify", "Compares every file with its SHA-256", options, verify, action);
  command->footer("Example:\n  llmtrain checkpoint verify runs/quickstart/checkpoints/step-00000100");

  command =
      add_command(*parent, "diff", "Shows which tensors of two checkpoints differ", options, show_difference, action);
  command->add_option("OTHER", options->other, "Another run's directory or checkpoint's folder")
      ->required()
      ->type_name("");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("Example:\n  llmtrain checkpoint diff runs/quickstart runs/other/checkpoints/step-00000100");

  add_export(*parent, action);
  add_import(*parent, action);
}

}  // namespace llmtrain::app
