// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "apps/llmtrain/bundled/new_recipe.h"
#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/installation.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain::app {
namespace {

// What more devices would do: new_recipe() gives each as many sequences, up to the batch of the model's authors.
std::string scaling_of(const Recipe& made, const Recipe& model) {
  const std::string batch = fmt::format("batch.global is {}", made.batch.global);
  if (made.batch.global < model.batch.global)
    return fmt::format("{}; for more devices it would be larger (weak scaling), up to the {} of {}", batch,
                       model.batch.global, model.name);
  return batch + "; more devices would share it (strong scaling)";
}

int make_recipe(NewRecipe wanted) {
  wanted.model = recipe_file_meant(wanted.model);
  if (wanted.output.empty()) wanted.output = std::filesystem::path(wanted.model).filename();
  std::error_code failed;
  if (std::filesystem::exists(wanted.output, failed))
    throw Error(ExitCode::cannot_write, wanted.output.string() + ": exists already; choose another file with --output");
  const auto recipe = new_recipe(wanted);
  write_file_atomically(wanted.output, commented(recipe).dump(2) + "\n");
  write_result(explained(recipe, style_of_output().width));
  const std::string file = wanted.output.string();
  const Recipe made = read_recipe(wanted.output);
  const std::int64_t bytes = 256, vocabulary = made.model.vocab_size;
  if (vocabulary > bytes)
    log().warn(
        "{}: data.tokenizer is \"bytes\", which use {} of the model's {} ids; give the file of its own tokenizer, as "
        "{{\"huggingface\": \"tokenizer.json\"}}",
        file, bytes, vocabulary);
  if (!wanted.data) log().warn("{}: data.train is empty; add a path to train, planning needs none", file);
  log().info("{}: {}", file, scaling_of(made, read_recipe(wanted.model)));
  log().info("{} is written. Next: llmtrain plan {}", file, file);
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_new(CLI::App& program, Action& action) {
  const auto wanted = std::make_shared<NewRecipe>();
  CLI::App* command = program.add_subcommand("new", "Writes a recipe from a known model, data and a machine");
  command->add_option("--model", wanted->model, "A recipe whose model to take; llmtrain recipes lists them")
      ->required()
      ->type_name("RECIPE");
  command->add_option("--data", wanted->data, "Training data: a file, folder or glob")->type_name("PATH");
  command->add_option("--machine", wanted->machine, "Profile of the machine (cluster.profile)")
      ->type_name("PROFILE")
      ->capture_default_str();
  command->add_option("--devices", wanted->devices, "Devices that train together (default: those of one node)")
      ->type_name("N")
      ->check(whole_number_positive());
  CLI::Option* steps = command->add_option("--steps", wanted->steps, "Optimizer steps (training.steps)")
                           ->type_name("N")
                           ->check(whole_number_positive())
                           ->capture_default_str();
  command->add_option("--epochs", wanted->epochs, "How often to read the data, in place of --steps (training.epochs)")
      ->type_name("N")
      ->check(not_negative())
      ->excludes(steps);
  command->add_option("--output", wanted->output, "The new recipe (default: the model's name)")->type_name("FILE");
  command->footer(
      "Examples:\n  llmtrain new --model quickstart --data book.txt --output mine.json\n"
      "  llmtrain new --model llama3-8b --data \"books/*.txt\" --machine h100-sxm-80gb --devices 64");
  command->callback([wanted, &action] { action = [wanted] { return make_recipe(*wanted); }; });
}

}  // namespace llmtrain::app
