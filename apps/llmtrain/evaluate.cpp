// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/checkpoint/checkpoint_source.h"
#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/inference/choice_report.h"
#include "apps/llmtrain/inference/evaluation_data.h"
#include "apps/llmtrain/inference/evaluation_report.h"
#include "apps/llmtrain/inference/rollout_report.h"
#include "apps/llmtrain/inference/text_lines.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/runtime.h"
#include "apps/llmtrain/standard_streams.h"

namespace llmtrain::app {
namespace {

struct EvaluateOptions {
  std::string source;
  std::vector<Override> overrides;
  WeightMemoryFlags memory;
  EvaluateRequest request;
  std::vector<std::string> data;
  std::optional<std::string> choices, rollouts;
  std::string key = document_key;
  std::string delimiter = " ";
  bool is_packed = false, json = false;
  KeyValueType key_values = KeyValueType::compute;
};

// `shown`: the model in what is reported.
void score(const EvaluateRequest& request, const std::string& shown, const EvaluateOptions& options) {
  const std::vector<KnownQuestion> questions = read_questions(*options.choices, options.delimiter);
  ScoreRequest scored{request.recipe, request.checkpoint, {}, request.ranks, options.key_values, request.memory};
  for (const KnownQuestion& known : questions) scored.questions.push_back(known.question);
  const ChoiceScores scores = load_runtime().score(scored);
  options.json ? write_json(choices_as_json(shown, questions, scores))
               : write_result(choices_as_text(shown, questions, scores));
}

void score_rollouts(const EvaluateRequest& request, const std::string& shown, const EvaluateOptions& options) {
  const RolloutRequest scored{request.recipe,   request.checkpoint, read_rollouts(*options.rollouts),
                              request.is_exact, request.ranks,      request.memory};
  const RolloutScores scores = load_runtime().score(scored);
  options.json ? write_json(rollouts_as_json(shown, scores)) : write_result(rollouts_as_text(shown, scores));
}

int evaluate(const EvaluateOptions& options) {
  auto source = open_source(options.source, options.overrides);
  // Before LibTorch is loaded.
  require_executable(source.recipe, source.checkpoint().string());
  EvaluateRequest request = options.request;
  request.checkpoint = source.checkpoint().string();
  request.memory = options.memory.memory();
  if (!options.choices && !options.rollouts)
    request.data = evaluation_data(source.recipe, request.checkpoint, options.data, options.key,
                                   options.is_packed || request.batches > 0);
  const bool reads_text = std::ranges::count(request.data, EvaluationMethod::rolling, &EvaluationData::method) > 0;
  if (options.choices) require_decoder(source.recipe, request.checkpoint, "eval --choices");
  if (options.rollouts) require_decoder(source.recipe, request.checkpoint, "eval --rollouts");
  if (reads_text) require_decoder(source.recipe, request.checkpoint, "eval of whole texts");
  if (options.choices || reads_text) require_tokenizer(source, options.overrides);
  request.recipe = std::move(source.recipe);
  // A checkpoint that was made for this call is gone when somebody reads the report.
  const std::string shown = source.imported ? options.source : request.checkpoint;
  if (options.choices) {
    score(request, shown, options);
    return 0;
  }
  if (options.rollouts) {
    score_rollouts(request, shown, options);
    return 0;
  }
  const std::vector<EvaluateResult> results = load_runtime().evaluate(request);
  request.checkpoint = shown;
  options.json ? write_json(evaluation_as_json(request, results)) : write_result(evaluation_as_text(request, results));
  return 0;
}

// Returns --choices.
CLI::Option* add_choices_flags(CLI::App& command, EvaluateOptions& options) {
  CLI::Option* choices =
      command.add_option("--choices", options.choices, "Multiple-choice questions to answer instead, as JSON Lines");
  choices->type_name("FILE");
  command.add_option("--delimiter", options.delimiter, "Text between a question's context and each of its choices")
      ->type_name("TEXT")
      ->capture_default_str()
      ->needs(choices);
  add_key_value_flag(command, options.key_values)->needs(choices);
  return choices;
}

}  // namespace

void add_evaluate(CLI::App& program, Action& action) {
  const auto options = std::make_shared<EvaluateOptions>();
  CLI::App* command = program.add_subcommand("eval", "Measures loss and perplexity of a trained model");
  add_source_argument(*command, options->source);
  CLI::Option* data = command->add_option("--data", options->data,
                                          "A file, folder or glob instead of the recipe's data.validation; repeatable");
  data->type_name("FILE")->allow_extra_args(false);
  command->add_option("--key", options->key, "Key of the documents in rows of --data")
      ->type_name("KEY")
      ->capture_default_str()
      ->needs(data);
  CLI::Option* window = command->add_option("--window", options->request.window,
                                            "Tokens of a text that the model sees at once; 0: as many as it takes");
  window->type_name("N")->capture_default_str()->check(whole_number_not_negative());
  CLI::Option* packed = command->add_flag("--packed", options->is_packed,
                                          "Evaluate as a run does, documents one behind another in samples");
  CLI::Option* batches = command->add_option("--batches", options->request.batches,
                                             "Global batches to read, with --packed; 0: all the data once");
  batches->type_name("N")->capture_default_str()->check(whole_number_not_negative());
  command
      ->add_option("--targets", options->request.targets,
                   "Targets of pairs that the model writes, to be compared with the data's; 0: none (default: as many "
                   "as training.generation says, else 256)")
      ->type_name("N")
      ->check(whole_number_not_negative());
  window->excludes(packed)->excludes(batches);
  CLI::Option* choices = add_choices_flags(*command, *options);
  choices->excludes(data)->excludes(batches)->excludes(packed)->excludes(window);
  CLI::Option* rollouts =
      command->add_option("--rollouts", options->rollouts,
                          "Texts that serve has written, to be scored token by token, by the experts that it tells");
  rollouts->type_name("FILE")->excludes(data)->excludes(batches)->excludes(packed)->excludes(window)->excludes(choices);
  command
      ->add_flag("--exact", options->request.is_exact,
                 "Each token's loss with the bits that it has alone, as serve --exact has them; takes longer")
      ->excludes(choices);
  add_inference_rank_flags(*command, options->request.ranks);
  add_weight_memory_flags(*command, options->memory);
  add_set_flag(*command, options->overrides);
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("Example:\n  llmtrain eval runs/quickstart --data README.md");
  command->callback([options, &action] { action = [options] { return evaluate(*options); }; });
}

}  // namespace llmtrain::app
