// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/data/conversations/message_writer.h"
#include "core/recipe/data_recipe.h"
#include "core/tokenizer/model_marks.h"

namespace llmtrain {

// The chat template that a recipe chooses, or the several that a model has, with the special tokens of the tokenizer.
// Immutable, for any number of threads.
class ChatTemplates {
 public:
  // Special tokens are those beside the tokenizer's file, or where it has none those beside the template's. Throws
  // Error(missing_input), and Error(bad_data) that names the file of a template that is refused, or the tokenizer's
  // where there is none.
  ChatTemplates(const FineTuningRecipe& recipe, const TokenizerRecipe& tokenizer);

  // As transformers chooses: for a conversation with "tools" the one that is named so, if there is one.
  const MessageWriter& writer_for(const Json& variables) const;

  // The file of the template, or its name.
  const std::string& name() const { return name_; }
  const std::vector<NamedTemplate>& sources() const { return sources_; }

  // The text that ends an answer, such as <|im_end|>, as far as a small conversation shows it; none where the template
  // refuses that one.
  std::optional<std::string> end_of_answer() const;

 private:
  std::string name_;
  std::vector<NamedTemplate> sources_;
  std::map<std::string, MessageWriter> writers_;
};

}  // namespace llmtrain
