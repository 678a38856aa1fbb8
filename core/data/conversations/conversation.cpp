// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/conversation.h"

#include <spdlog/fmt/fmt.h>

#include <string_view>
#include <utility>

#include "core/data/conversations/conversation_forms.h"
#include "core/data/conversations/conversation_refused.h"
#include "core/data/records/bad_lines.h"
#include "core/json/json_memory.h"

namespace llmtrain {
namespace {

// Parts that count alike are one text, so that nothing but the beginning and the end of an answer separates tokens.
void add(std::vector<LabelledText>& parts, std::string_view text, bool counts) {
  if (text.empty()) return;
  if (parts.empty() || parts.back().counts != counts) parts.push_back({"", counts});
  parts.back().text += text;
}

}  // namespace

const ChatTemplates& ConversationReader::templates() {
  if (!templates_) templates_.emplace(recipe_, tokenizer_);
  return *templates_;
}

Conversation ConversationReader::conversation_of(const Record& record) {
  if (is_too_large_json(record.text)) throw ConversationRefused(std::string(too_large_json));
  const Json object = Json::parse(record.text, nullptr, false);
  if (record.line == 0 || !object.is_object()) throw ConversationRefused("is not a JSON object");
  if (is_rollout(object)) return {.parts = {}, .rollout = rollout_of(object, model_)};
  Turns turns = turns_of(object, recipe_);
  if (turns.is_undesired) return {};
  const bool all = recipe_.counted == CountedTokens::all;
  Conversation conversation{{}, turns.plain.has_value()};
  if (turns.plain) {
    add(conversation.parts, turns.plain->first, all);
    add(conversation.parts, turns.plain->second, true);
    return conversation;
  }
  const MessageWriter& writer = templates().writer_for(turns.variables);
  checks_.apply(turns.variables, writer);
  for (const LabelledText& part : writer.write(turns.variables, turns.counted))
    add(conversation.parts, part.text, part.counts || all);
  return conversation;
}

Conversation ConversationReader::read(const Record& record, const std::filesystem::path& file) {
  try {
    return conversation_of(record);
  } catch (const ConversationRefused& refused) {
    throw BadLine(file, record.line, refused.what());
  } catch (const jinja::TemplateError& error) {
    throw BadLine(file, record.line,
                  fmt::format("is refused by the chat template {}: {}", templates().name(), error.what()));
  }
}

}  // namespace llmtrain
