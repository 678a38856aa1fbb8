// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/checkpoint/checkpoint_source.h"
#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/inference/choice_flags.h"
#include "apps/llmtrain/inference/sample_output.h"
#include "apps/llmtrain/inference/text_lines.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/runtime.h"

namespace llmtrain::app {
namespace {

struct SampleOptions {
  std::string source;
  std::vector<Override> overrides;
  std::string prompt;
  std::optional<std::string> prompts;
  bool json = false;
  SampleRequest request;
};

int sample(const SampleOptions& options) {
  auto source = open_source(options.source, options.overrides);
  require_executable(source.recipe, source.checkpoint().string());
  require_tokenizer(source, options.overrides);
  SampleRequest request = options.request;
  request.recipe = std::move(source.recipe);
  request.checkpoint = source.checkpoint().string();
  // A model needs at least one token to begin with.
  request.prompts = options.prompts ? read_prompts(*options.prompts)
                                    : std::vector<std::string>{options.prompt.empty() ? "\n" : options.prompt};
  SampleOutput output(request.prompts, request.samples,
                      options.json ? SampleOutput::Form::json_lines : SampleOutput::Form::text);
  load_runtime().sample(request, [&](const SamplePiece& piece) { output.add(piece); });
  return 0;
}

void add_prompt_flags(CLI::App& command, SampleOptions& options) {
  CLI::Option* prompt = command.add_option("--prompt", options.prompt, "Start of the text (default: a newline)");
  prompt->type_name("TEXT");
  command.add_option("--prompts", options.prompts, "One prompt per line, or in a .jsonl file per object's \"prompt\"")
      ->type_name("FILE")
      ->excludes(prompt);
}

void add_batch_flags(CLI::App& command, SampleOptions& options) {
  command.add_option("--samples", options.request.samples, "Texts of each prompt")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number_positive());
  command.add_option("--batch", options.request.batch, "Texts that grow together, which takes memory for each")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number_positive());
  add_inference_rank_flags(command, options.request.ranks);
  add_set_flag(command, options.overrides);
  command.add_flag("--json", options.json, "Print JSON Lines");
}

}  // namespace

void add_sample(CLI::App& program, Action& action) {
  const auto options = std::make_shared<SampleOptions>();
  CLI::App* command = program.add_subcommand("sample", "Writes text with a trained model");
  command->add_option("SOURCE", options->source, "A run's directory, a checkpoint's folder, or a recipe")
      ->required()
      ->type_name("");
  add_prompt_flags(*command, *options);
  add_choice_flags(*command, options->request);
  add_batch_flags(*command, *options);
  command->footer("Example:\n  llmtrain sample runs/quickstart --prompt \"The \" --tokens 200");
  command->callback([options, &action] { action = [options] { return sample(*options); }; });
}

}  // namespace llmtrain::app
