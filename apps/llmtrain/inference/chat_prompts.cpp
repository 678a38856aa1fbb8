// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/chat_prompts.h"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "core/base/error.h"
#include "core/data/conversations/conversation_refused.h"
#include "core/recipe/model_from/model_files.h"

namespace llmtrain::app {
namespace {

const FineTuningRecipe& fine_tuning_of(const Recipe& recipe, const std::string& source) {
  if (recipe.data.fine_tuning) return *recipe.data.fine_tuning;
  throw Error(ExitCode::bad_recipe, source +
                                        ": /data/fine_tuning: is null, so that no chat template is known; give one, as "
                                        "in --set data.fine_tuning.template=chatml");
}

}  // namespace

void take_chat_template(Recipe& recipe, const std::filesystem::path& checkpoint) {
  if (recipe.data.fine_tuning) return;
  const std::filesystem::path origin = origin_of_model(recipe, checkpoint);
  if (origin.empty()) return;
  if (const auto file = chat_template_in(origin))
    recipe.data.fine_tuning = {.chat_template = {ChatTemplate::file, file->string()}};
}

ChatPrompts::ChatPrompts(const Recipe& recipe, const std::string& source)
    : templates_(fine_tuning_of(recipe, source), recipe.data.tokenizer), checks_(*recipe.data.fine_tuning) {}

std::string ChatPrompts::text(Json messages) {
  Json conversation = {{"messages", std::move(messages)}};
  const MessageWriter& writer = templates_.writer_for(conversation);
  try {
    checks_.apply(conversation, writer);
    return writer.text(conversation, true);
  } catch (const ConversationRefused& refused) {
    throw Error(ExitCode::bad_data, fmt::format("{}: the conversation {}", templates_.name(), refused.what()));
  } catch (const jinja::TemplateError& error) {
    throw Error(ExitCode::bad_data, fmt::format("{}: refuses the conversation: {}", templates_.name(), error.what()));
  }
}

// It may be several tokens, as all is that bytes write, so that no token ends it.
void ChatPrompts::add_end_of_answer(std::vector<std::string>& stop) const {
  const std::string end = templates_.end_of_answer().value_or("");
  const auto last = end.find_last_not_of(" \t\n\v\f\r");
  if (last != std::string::npos) stop.push_back(end.substr(0, last + 1));
}

Json message_of(const std::string& role, const std::string& content) { return {{"role", role}, {"content", content}}; }

}  // namespace llmtrain::app
