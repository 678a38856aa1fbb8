// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/documents.h"
#include "core/data/message_writer.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

struct Conversation {
  std::vector<LabelledText> parts;
  // A prompt and its completion without a template: a document with the tokenizer's marks around it.
  bool is_plain = false;
};

// The conversation in a line of JSON Lines:
// - {"messages": [{"role": …, "content": …}, …]}: written out by the template (core/data/message_writer.h); the answers
//   of the role "assistant" count, each with the token that ends it;
// - {"prompt": …, "completion": …}: two texts without a template, or two lists of messages with it; the completion
//   counts, of messages its answers.
// Other keys of the line are ignored, other keys of messages refused unless they are empty. With CountedTokens::all
// every part counts. Throws Error(bad_data) that begins with `file` and gives the line for anything else.
Conversation conversation_of(const Record& record, const std::filesystem::path& file, const FineTuningRecipe& recipe);

// The text that ends a message, which tokenizers made for the template have as one token.
std::string end_of_message(ChatTemplate chat);

}  // namespace llmtrain
