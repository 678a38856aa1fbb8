// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "apps/llmtrain/checkpoint_source.h"
#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/runtime.h"
#include "apps/llmtrain/standard_streams.h"

namespace llmtrain::app {
namespace {

struct SampleOptions {
  std::string source;
  std::vector<Override> overrides;
  SampleRequest request;
};

int sample(const SampleOptions& options) {
  auto source = open_source(options.source, options.overrides);
  require_executable(source.recipe, source.checkpoint.string());
  SampleRequest request = options.request;
  request.recipe = std::move(source.recipe);
  request.checkpoint = source.checkpoint.string();
  write_result(load_runtime().sample(request) + "\n");
  return 0;
}

}  // namespace

void add_sample(CLI::App& program, Action& action) {
  const auto options = std::make_shared<SampleOptions>();
  SampleRequest& request = options->request;
  // A model needs at least one token to begin with.
  request.prompt = "\n";
  CLI::App* command = program.add_subcommand("sample", "Writes text with a trained model");
  command->add_option("SOURCE", options->source, "A run's directory, a checkpoint's folder, or a recipe")
      ->required()
      ->type_name("");
  command->add_option("--prompt", request.prompt, "Start of the text (default: a newline)")->type_name("TEXT");
  command->add_option("--tokens", request.tokens, "How many tokens to write")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number_not_negative());
  command
      ->add_option("--temperature", request.temperature,
                   "0: always the most likely token; 1: the model's probabilities")
      ->type_name("F")
      ->capture_default_str()
      ->check(not_negative());
  command->add_option("--top-k", request.top_k, "Choose among the N most likely tokens; 0: among all")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number_not_negative());
  command->add_option("--seed", request.seed, "The same seed writes the same text")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number());
  add_set_flag(*command, options->overrides);
  command->footer("Example:\n  llmtrain sample runs/quickstart --prompt \"The \" --tokens 200");
  command->callback([options, &action] { action = [options] { return sample(*options); }; });
}

}  // namespace llmtrain::app
