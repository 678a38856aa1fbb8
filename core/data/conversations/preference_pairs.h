// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/json/json_text.h"
#include "core/recipe/data_recipe.h"

namespace llmtrain {

// Whether a record says which answers are preferred: the better and the worse one of two, under the keys "chosen" and
// "rejected" or those that the recipe names, or whether one is good, as a truth value "label" beside a prompt and its
// completion. None where the recipe has the better one read as a key of another form, or messages hold an answer.
bool is_preference(const Json& record, const FineTuningRecipe& recipe);

// The same record with its preferred answer in a form without preferences:
// - a "prompt" and two texts, or two lists of messages, are that prompt and its completion. A list is the answer alone,
//   or the whole conversation where both begin with the same message;
// - an instruction, or messages that end before the answer, go on with it;
// - without any of these the two begin alike, and what they share is the prompt, as in data for TRL.
// Throws ConversationRefused.
Json with_preferred_answer(Json record, const FineTuningRecipe& recipe);

// Whether the answer of a record with a "label" is none to be learned from.
bool is_undesired(const Json& record);

}  // namespace llmtrain
