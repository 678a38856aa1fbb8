// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/data/conversations/chat_templates.h"
#include "core/data/conversations/message_checks.h"
#include "core/json/json_text.h"
#include "core/recipe/recipe.h"

namespace llmtrain::app {

// For a recipe that is not of a fine-tuned model: the chat template of the folder of transformers from which the
// checkpoint's model came, where it has one. Throws Error(bad_data) as chat_template_in() does.
void take_chat_template(Recipe& recipe, const std::filesystem::path& checkpoint);

// Writes conversations out as a fine-tuned model has learned them, up to where its next answer begins.
class ChatPrompts {
 public:
  // `source` names the recipe, which outlives this, in errors. Throws Error(bad_recipe) where it has no
  // data.fine_tuning, and as ChatTemplates does.
  ChatPrompts(const Recipe& recipe, const std::string& source);

  // The text of messages, each with "role" and "content" as a record of data has them. Throws Error(bad_data) where
  // the template refuses them.
  std::string text(Json messages);

  // Adds what ends an answer; nothing where the template does not say.
  void add_end_of_answer(std::vector<std::string>& stop) const;

 private:
  ChatTemplates templates_;
  MessageChecks checks_;
};

// A message of the role `role`.
Json message_of(const std::string& role, const std::string& content);

}  // namespace llmtrain::app
