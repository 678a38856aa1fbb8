// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "core/json/json_text.h"
#include "core/recipe/data_recipe.h"

namespace llmtrain {

// Keys by which conversations in files are known.
inline constexpr std::initializer_list<const char*> message_keys = {"messages", "conversations", "conversation"};
inline constexpr std::initializer_list<const char*> role_keys = {"role", "from"};
inline constexpr std::initializer_list<const char*> content_keys = {"content", "value"};

// The key of `object` that the recipe names, else the first of `known` that it has; `known`'s first where it has none.
std::string key_in(const Json& object, const std::optional<std::string>& named,
                   std::initializer_list<const char*> known);

// By what templates call the role that a file calls `written`, with the further names of the recipe and those of
// ShareGPT: human, gpt, observation. Others as they are written.
std::string known_role(const std::string& written, const ConversationRolesRecipe& roles);

// What a file of ShareGPT's form calls the role of a call of tools.
inline constexpr const char* tool_call_role = "function_call";

// The message of that role as templates know it: the assistant's, with "tool_calls" made of its content, an object of
// JSON or a text of one with "name" and "arguments", or a list of these. Throws ConversationRefused.
Json with_tool_calls(Json message);

}  // namespace llmtrain
