// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/checkpoint/checkpoint_source.h"
#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/inference/choice_report.h"
#include "apps/llmtrain/inference/text_lines.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/runtime.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/json/json_text.h"

namespace llmtrain::app {
namespace {

struct EvaluateOptions {
  std::string source;
  std::vector<Override> overrides;
  EvaluateRequest request;
  std::optional<std::string> data, choices;
  std::string key = document_key;
  std::string delimiter = " ";
  bool json = false;
};

std::string as_json(const EvaluateRequest& request, const EvaluateResult& result) {
  nlohmann::ordered_json json = {{"checkpoint", request.checkpoint},
                                 {"step", result.step},
                                 {"loss", result.loss},
                                 {"perplexity", result.perplexity},
                                 {"bits_per_byte", number_or_null(result.bits_per_byte)},
                                 {"tokens", result.tokens}};
  for (const LossValue& term : result.terms) json["loss_terms"][term.name] = term.value;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string as_text(const EvaluateRequest& request, const EvaluateResult& result) {
  std::string text = fmt::format(
      "checkpoint  {}\nstep        {}\ntokens      {}\nloss        {:.6f} nats per token\nperplexity  {:.4g}\n",
      request.checkpoint, result.step, result.tokens, result.loss, result.perplexity);
  for (const LossValue& term : result.terms) text += fmt::format("{:<10}  {:.6f}\n", term.name, term.value);
  if (result.bits_per_byte) text += fmt::format("bits/byte   {:.6f}\n", *result.bits_per_byte);
  return text;
}

void score(const EvaluateRequest& request, const EvaluateOptions& options) {
  const std::vector<KnownQuestion> questions = read_questions(*options.choices, options.delimiter);
  ScoreRequest scored{request.recipe, request.checkpoint, {}, request.ranks};
  for (const KnownQuestion& known : questions) scored.questions.push_back(known.question);
  const ChoiceScores scores = load_runtime().score(scored);
  options.json ? write_json(choices_as_json(request.checkpoint, questions, scores))
               : write_result(choices_as_text(request.checkpoint, questions, scores));
}

int evaluate(const EvaluateOptions& options) {
  auto source = open_source(options.source, options.overrides);
  // Before LibTorch is loaded.
  require_executable(source.recipe, source.checkpoint().string());
  if (options.choices) require_tokenizer(source, options.overrides);
  EvaluateRequest request = options.request;
  request.recipe = std::move(source.recipe);
  request.checkpoint = source.checkpoint().string();
  if (options.data) request.data = DataSource{*options.data, 1, options.key};
  if (options.choices) {
    score(request, options);
    return 0;
  }
  const EvaluateResult result = load_runtime().evaluate(request);
  options.json ? write_json(as_json(request, result)) : write_result(as_text(request, result));
  return 0;
}

}  // namespace

void add_evaluate(CLI::App& program, Action& action) {
  const auto options = std::make_shared<EvaluateOptions>();
  CLI::App* command = program.add_subcommand("eval", "Measures loss and perplexity of a trained model");
  command->add_option("SOURCE", options->source, "A run's directory, a checkpoint's folder, or a recipe")
      ->required()
      ->type_name("");
  CLI::Option* data =
      command->add_option("--data", options->data, "A file, folder or glob instead of the recipe's data.validation");
  data->type_name("FILE");
  command->add_option("--key", options->key, "Key of the documents in rows of --data")
      ->type_name("KEY")
      ->capture_default_str()
      ->needs(data);
  CLI::Option* batches =
      command->add_option("--batches", options->request.batches, "Global batches to read; 0: all the data once");
  batches->type_name("N")->capture_default_str()->check(whole_number_not_negative());
  CLI::Option* choices =
      command->add_option("--choices", options->choices, "Multiple-choice questions to answer instead, as JSON Lines");
  choices->type_name("FILE")->excludes(data)->excludes(batches);
  command->add_option("--delimiter", options->delimiter, "Text between a question's context and each of its choices")
      ->type_name("TEXT")
      ->capture_default_str()
      ->needs(choices);
  add_inference_rank_flags(*command, options->request.ranks);
  add_set_flag(*command, options->overrides);
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("Example:\n  llmtrain eval runs/quickstart --data README.md");
  command->callback([options, &action] { action = [options] { return evaluate(*options); }; });
}

}  // namespace llmtrain::app
