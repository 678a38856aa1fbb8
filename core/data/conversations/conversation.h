// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "core/data/conversations/chat_templates.h"
#include "core/data/conversations/message_checks.h"
#include "core/data/conversations/message_writer.h"
#include "core/data/conversations/rollout_row.h"
#include "core/data/records/record_reader.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Without parts where it says what is not to be learned.
struct Conversation {
  std::vector<LabelledText> parts;
  // A prompt and its completion without a template: a document with the tokenizer's marks around it.
  bool is_plain = false;
  std::optional<RolloutRow> rollout{};  // in place of parts: tokens as they are, without marks around them
};

// Reads conversations by a recipe; see turns_of() in core/data/conversations/conversation_forms.h for the forms that
// they have.
class ConversationReader {
 public:
  // The recipe outlives this. Throws what ChatTemplates() does, as soon as a template is needed.
  ConversationReader(const FineTuningRecipe& recipe, const TokenizerRecipe& tokenizer, RolloutModel model = {})
      : recipe_(recipe), tokenizer_(tokenizer), model_(model), checks_(recipe) {}

  // Messages are written out by the template; answers count, each with the token that ends it. With CountedTokens::all
  // every part counts. Throws BadLine for anything that is no conversation, or says what the
  // template does not write.
  Conversation read(const Record& record, const std::filesystem::path& file);

  const ChatTemplates& templates();

 private:
  Conversation conversation_of(const Record& record);

  const FineTuningRecipe& recipe_;
  TokenizerRecipe tokenizer_;
  RolloutModel model_;
  std::optional<ChatTemplates> templates_;  // made when it is needed
  MessageChecks checks_;
};

}  // namespace llmtrain
