// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
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
#include "apps/llmtrain/inference/user_lines.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/runtime.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/json/json_text.h"

namespace llmtrain::app {
namespace {

struct ChatOptions {
  std::string source;
  std::vector<Override> overrides;
  std::optional<std::string> system;
  ChoiceFlags choice;
  WeightMemoryFlags memory;
  KeyValueType key_values = KeyValueType::compute;
  DraftFlags draft;
};

// What was said, and how it goes on: a line of standard input is a message of the user's.
class Chat {
 public:
  // The prompts outlive this. Throws as next() does where the template refuses the system message, or any conversation.
  Chat(ChatPrompts& prompts, const std::optional<std::string>& system) : prompts_(prompts) {
    if (system) opening_.push_back(message_of("system", *system));
    messages_ = opening_;
    messages_.push_back(message_of("user", "Hello."));
    static_cast<void>(prompts_.text(messages_));
    messages_ = opening_;
  }

  // The text of the conversation with the next line of the user's, up to where the answer begins; none at the end of
  // the input. Throws as UserLines::next(), and Error(bad_data) where the template refuses the conversation.
  std::optional<std::string> next() {
    while (const std::optional<std::string> line = lines_.next()) {
      if (*line == "/new") {
        messages_ = opening_;
        continue;
      }
      messages_.push_back(message_of("user", *line));
      return prompts_.text(messages_);
    }
    return std::nullopt;
  }

  void add(const SamplePiece& piece) {
    write_model_text(piece.text + (piece.end ? "\n" : ""));
    // As the user has seen it: what a model writes need not be UTF-8.
    if (piece.end) messages_.push_back(message_of("assistant", printable(piece.end->text)));
  }

 private:
  ChatPrompts& prompts_;
  Json opening_ = Json::array(), messages_;
  UserLines lines_;
};

int chat(const ChatOptions& options) {
  auto source = open_source(options.source, options.overrides);
  require_executable(source.recipe, source.checkpoint().string());
  require_decoder(source.recipe, source.checkpoint().string(), "chat");
  require_tokenizer(source, options.overrides);
  take_chat_template(source.recipe, source.checkpoint());
  if (options.system && !is_utf8(*options.system)) throw Error(ExitCode::bad_recipe, "--system: is not UTF-8");
  ChatPrompts prompts(source.recipe, source.checkpoint().string());
  SampleRequest request;
  request.recipe = source.recipe;
  request.checkpoint = source.checkpoint().string();
  request.key_values = options.key_values;
  request.memory = options.memory.memory();
  take_choice(options.choice, request);
  const OpenedDraft draft = open_draft(options.draft, request.recipe);
  request.draft = draft.request;
  require_drafts_apply(request);
  prompts.add_end_of_answer(request.stop);
  Chat conversation(prompts, options.system);
  load_runtime().converse(
      request, [&] { return conversation.next(); }, [&](const SamplePiece& piece) { conversation.add(piece); });
  return 0;
}

}  // namespace

void add_chat(CLI::App& program, Action& action) {
  const auto options = std::make_shared<ChatOptions>();
  CLI::App* command = program.add_subcommand("chat", "Answers messages, line by line, with a fine-tuned model");
  add_source_argument(*command, options->source);
  command->add_option("--system", options->system, "A message of the role system that begins the conversation")
      ->type_name("TEXT");
  add_choice_flags(*command, options->choice);
  add_key_value_flag(*command, options->key_values);
  add_weight_memory_flags(*command, options->memory);
  add_draft_flags(*command, options->draft);
  add_set_flag(*command, options->overrides);
  command->footer(
      "Example:\n  llmtrain chat runs/mine --system \"You answer briefly.\"\n\n"
      "A line /new begins another conversation; the end of the input ends the program.\n" +
      std::string(choice_note));
  command->callback([options, &action] { action = [options] { return chat(*options); }; });
}

}  // namespace llmtrain::app
