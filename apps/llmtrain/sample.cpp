// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/llmtrain/checkpoint/checkpoint_source.h"
#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/inference/chat_prompts.h"
#include "apps/llmtrain/inference/choice_flags.h"
#include "apps/llmtrain/inference/draft_flags.h"
#include "apps/llmtrain/inference/sample_file.h"
#include "apps/llmtrain/inference/sample_output.h"
#include "apps/llmtrain/inference/text_lines.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/runtime.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/json/json_text.h"

namespace llmtrain::app {
namespace {

struct SampleOptions {
  std::string source;
  std::vector<Override> overrides;
  std::string prompt;
  std::optional<std::string> prompts, system, output;
  bool plain = false;
  bool json = false;
  ChoiceFlags choice;
  WeightMemoryFlags memory;
  DraftFlags draft;
  SampleRequest request;
};

std::vector<Json> prompts_of(const SampleOptions& options) {
  if (options.prompts) return read_prompts(*options.prompts);
  return {options.prompt};
}

// Prompts that the model goes on with as they are, or of which an encoder-decoder writes targets.
std::vector<SamplePrompt> plain_prompts(const SampleOptions& options, SampleRequest& request) {
  if (options.system)
    throw Error(ExitCode::bad_recipe,
                "--system: this model has no chat template (data.fine_tuning), or --plain leaves it "
                "out; put the message into the prompt");
  std::vector<SamplePrompt> prompts;
  for (const Json& prompt : prompts_of(options)) {
    if (!prompt.is_string())
      throw Error(ExitCode::bad_data, *options.prompts +
                                          ": has \"messages\", which a model without data.fine_tuning "
                                          "has no chat template for; give a \"prompt\"");
    // A model needs at least one token to begin with.
    const auto text = prompt.get<std::string>();
    request.prompts.push_back(text.empty() ? "\n" : text);
    const bool is_source = is_encoder_decoder(request.recipe.model.architecture);
    prompts.push_back({prompt, request.prompts.back() + (is_source ? "\n" : "")});
  }
  return prompts;
}

// Prompts that are a user's messages, or whole conversations, which the chat template writes out.
std::vector<SamplePrompt> conversations(const SampleOptions& options, SampleRequest& request) {
  if (!options.prompts && options.prompt.empty())
    throw Error(ExitCode::bad_recipe,
                "--prompt: is missing; a fine-tuned model answers a message. --plain lets it "
                "begin a text instead");
  ChatPrompts templates(request.recipe, request.checkpoint);
  templates.add_end_of_answer(request.stop);
  request.begins_texts = false;
  std::vector<SamplePrompt> prompts;
  for (const Json& prompt : prompts_of(options)) {
    Json messages = prompt.is_string() ? Json::array({message_of("user", prompt.get<std::string>())}) : prompt;
    if (options.system) messages.insert(messages.begin(), message_of("system", *options.system));
    const Json last = messages.back().value("content", Json());
    prompts.push_back({prompt, last.is_string() ? last.get<std::string>() + "\n" : ""});
    request.prompts.push_back(templates.text(std::move(messages)));
  }
  return prompts;
}

int write_samples(const std::string& name, const std::vector<SamplePrompt>& prompts, SampleRequest& request) {
  std::vector<Json> begun;
  for (const SamplePrompt& prompt : prompts) begun.push_back(prompt.json);
  SampleFile file(name, begun, request.samples);
  request.first_prompt = file.first_prompt();
  if (request.first_prompt > 0)
    log().info("{}: goes on after {} of {} prompts", name, request.first_prompt, prompts.size());
  if (request.first_prompt == std::ssize(prompts)) return 0;
  SampleOutput output(prompts, request.samples, file);
  load_runtime().sample(request, [&](const SamplePiece& piece) { output.add(piece); });
  output.end();
  return 0;
}

int sample(const SampleOptions& options) {
  auto source = open_source(options.source, options.overrides);
  require_executable(source.recipe, source.checkpoint().string());
  require_writer(source.recipe, source.checkpoint().string(), "sample");
  require_tokenizer(source, options.overrides);
  SampleRequest request = options.request;
  request.recipe = std::move(source.recipe);
  request.memory = options.memory.memory();
  request.checkpoint = source.checkpoint().string();
  take_choice(options.choice, request);
  const OpenedDraft draft = open_draft(options.draft, request.recipe);
  request.draft = draft.request;
  require_drafts_apply(request);
  const bool chats = request.recipe.data.fine_tuning && !options.plain;
  const std::vector<SamplePrompt> prompts = chats ? conversations(options, request) : plain_prompts(options, request);
  if (options.output) return write_samples(*options.output, prompts, request);
  SampleOutput output(prompts, request.samples,
                      options.json ? SampleOutput::Form::json_lines : SampleOutput::Form::text);
  load_runtime().sample(request, [&](const SamplePiece& piece) { output.add(piece); });
  return 0;
}

void add_prompt_flags(CLI::App& command, SampleOptions& options) {
  CLI::Option* prompt = command.add_option("--prompt", options.prompt,
                                           "Start of the text, or an encoder-decoder's source (default: a newline)");
  prompt->type_name("TEXT");
  command
      .add_option("--prompts", options.prompts,
                  "One prompt per line, or in a .jsonl file per object's \"prompt\" or \"messages\"")
      ->type_name("FILE")
      ->excludes(prompt);
  command.add_option("--system", options.system, "A message of the role system before each prompt")->type_name("TEXT");
  command.add_flag("--plain", options.plain, "Go on with prompts as they are, also where a model was fine-tuned");
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
  add_key_value_flag(command, options.request.key_values);
  add_draft_flags(command, options.draft);
  add_inference_rank_flags(command, options.request.ranks);
  add_weight_memory_flags(command, options.memory);
  add_set_flag(command, options.overrides);
  CLI::Option* json = command.add_flag("--json", options.json, "Print JSON Lines");
  command
      .add_option("--output", options.output,
                  "Write JSON Lines to FILE, or go on with one that this command has begun, and say how fast")
      ->type_name("FILE")
      ->check(text_not_empty())
      ->excludes(json);
}

}  // namespace

void add_sample(CLI::App& program, Action& action) {
  const auto options = std::make_shared<SampleOptions>();
  CLI::App* command = program.add_subcommand("sample", "Writes text with a trained model");
  add_source_argument(*command, options->source);
  add_prompt_flags(*command, *options);
  add_choice_flags(*command, options->choice);
  add_batch_flags(*command, *options);
  command->footer("Example:\n  llmtrain sample runs/quickstart --prompt \"The \" --tokens 200\n\n" +
                  std::string(choice_note));
  command->callback([options, &action] { action = [options] { return sample(*options); }; });
}

}  // namespace llmtrain::app
