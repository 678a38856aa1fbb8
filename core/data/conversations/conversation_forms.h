// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/data_recipe.h"

namespace llmtrain {

// What a record says, by the names that chat templates know.
struct Turns {
  // What a template is given: "messages", each with "role" and mostly "content", and "tools", "documents" and what
  // "chat_template_kwargs" holds, where the record has them.
  Json variables = Json::object();
  std::vector<bool> counted;                                 // by message: whether it counts if it is an answer
  std::optional<std::pair<std::string, std::string>> plain;  // a prompt and its completion, in place of all that
  bool is_undesired = false;  // an answer that is none to be learned from, of which nothing else is said
};

// The record's conversation in one of these forms, with the keys and roles that the recipe names:
// - messages in a list: {"role": …, "content": …, …} as of OpenAI, or {"from": …, "value": …} as of ShareGPT; the
//   record's "system", if any, is the first of them;
// - "prompt" and "completion", two texts or two lists of messages, of which those of the completion count;
// - "instruction", "input" and "output" as of Alpaca: a user's message, with the input on a line of its own, and its
//   answer.
// Of preferences (core/data/conversations/preference_pairs.h) the chosen answers, where the recipe says so.
// A message's "weight" of 0 says that it does not count. Other keys of the record are not read. Throws
// ConversationRefused.
Turns turns_of(const Json& record, const FineTuningRecipe& recipe);

}  // namespace llmtrain
