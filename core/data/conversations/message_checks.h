// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <utility>

#include "core/data/conversations/message_writer.h"
#include "core/recipe/data_recipe.h"

namespace llmtrain {

// Keeps chat templates from leaving out in silence what conversations say. Remembers what it has found of a template,
// so that most conversations cost no further rendering.
class MessageChecks {
 public:
  // The recipe outlives this.
  explicit MessageChecks(const FineTuningRecipe& recipe) : recipe_(recipe) {}

  // Makes a conversation ready for the writer: content that is a list with one text becomes that text where the
  // template knows no such lists, and keys that the recipe allows to leave out go if the template does not name them.
  // Throws ConversationRefused for what
  // the template does not write: roles, keys of messages, "tools"; a key is written if the template names it or its
  // text depends on it. Throws jinja::TemplateError where the template refuses the conversation.
  void apply(Json& conversation, const MessageWriter& writer);

 private:
  class Whole;

  void check_role(Whole& whole, std::size_t place);
  static void check_keys(Whole& whole, std::size_t place);

  const FineTuningRecipe& recipe_;
  std::set<std::pair<const MessageWriter*, std::string>> written_roles_;
};

}  // namespace llmtrain
