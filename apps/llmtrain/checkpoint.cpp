// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "apps/llmtrain/checkpoint_diff.h"
#include "apps/llmtrain/checkpoint_inspect.h"
#include "apps/llmtrain/checkpoint_source.h"
#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/runtime.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain::app {
namespace {

struct CheckpointOptions {
  std::string source;
  std::string other;
  std::string destination;
  std::string format;
  bool json = false;
};

int inspect(const CheckpointOptions& options) {
  const FoundCheckpoint found = find_source(options.source);
  warn_of_damaged(found.damaged);
  const CheckpointReader reader(found.folder);
  write_result(options.json ? describe_as_json(reader) : describe_as_text(reader));
  return 0;
}

// A damaged checkpoint beside an intact one is still an error here: finding damage is this command's purpose.
int verify(const CheckpointOptions& options) {
  const FoundCheckpoint found = find_source(options.source);
  warn_of_damaged(found.damaged);
  CheckpointReader(found.folder).verify();
  write_result(found.folder.string() + ": ok\n");
  return static_cast<int>(found.damaged.empty() ? ExitCode::done : ExitCode::bad_data);
}

// Damage would show as a difference, so it is looked for first.
CheckpointReader verified(const std::string& source) {
  const FoundCheckpoint found = find_source(source);
  warn_of_damaged(found.damaged);
  CheckpointReader reader(found.folder);
  reader.verify();
  return reader;
}

int show_difference(const CheckpointOptions& options) {
  const CheckpointReader first = verified(options.source), second = verified(options.other);
  const CheckpointDifference difference = compare_checkpoints(first, second);
  write_result(options.json ? difference_as_json(first, second, difference)
                            : difference_as_text(first, second, difference));
  return 0;
}

void require_new_folder(const std::string& destination) {
  std::error_code failed;
  const auto status = std::filesystem::status(destination, failed);
  // An empty folder may have been made for this; anything else could be overwritten by mistake.
  const bool free = !std::filesystem::exists(status) ||
                    (std::filesystem::is_directory(status) && std::filesystem::is_empty(destination, failed));
  if (destination.empty() || !free) {
    throw Error(ExitCode::cannot_write,
                "\"" + destination + "\": exists already and is not an empty folder; name a new one");
  }
}

int export_to(const CheckpointOptions& options) {
  // Before the checkpoint and LibTorch are loaded, which takes longer.
  require_new_folder(options.destination);
  const CheckpointSource source = open_source(options.source, {});
  require_executable(source.recipe, source.checkpoint.string());
  // Before the model is written: a folder without its tokenizer would be half an export.
  const TokenizerRecipe& tokenizer = source.recipe.data.tokenizer;
  open_tokenizer(tokenizer, source.recipe.model.vocab_size);
  const bool is_peft = options.format == "peft";
  load_runtime().export_model({source.recipe, source.checkpoint.string(), options.destination},
                              is_peft ? ExportFormat::peft : ExportFormat::huggingface);
  // An adapter's tokenizer is its model's.
  if (!is_peft) copy_tokenizer(tokenizer, options.destination);
  write_result(options.destination + ": written from " + source.checkpoint.string() + "\n");
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
  CLI::App* parent = program.add_subcommand("checkpoint", "Describes, verifies, compares and exports checkpoints");
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

  command = add_command(*parent, "export", "Exports a model for other programs", options, export_to, action);
  command->add_option("DIRECTORY", options->destination, "A new folder")->required()->type_name("");
  command
      ->add_option("--to", options->format,
                   "hf: for transformers' from_pretrained, adapters merged; peft: adapters alone, for PEFT")
      ->required()
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"hf", "peft"}));
  command->footer("Example:\n  llmtrain checkpoint export runs/quickstart my-model --to hf");
}

}  // namespace llmtrain::app
