// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/message_roles.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/data/conversations/conversation_refused.h"

namespace llmtrain {
namespace {

bool is_call(const Json& call) {
  return call.is_object() && call.contains("name") && call["name"].is_string() && call.contains("arguments");
}

}  // namespace

std::string key_in(const Json& object, const std::optional<std::string>& named,
                   std::initializer_list<const char*> known) {
  if (named) return *named;
  for (const char* name : known)
    if (object.contains(name)) return name;
  return *known.begin();
}

std::string known_role(const std::string& written, const ConversationRolesRecipe& roles) {
  const auto is_in = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, written) != names.end();
  };
  if (is_in(roles.user)) return "user";
  if (is_in(roles.assistant)) return "assistant";
  if (is_in(roles.system)) return "system";
  if (is_in(roles.tool)) return "tool";
  if (written == "human") return "user";
  if (written == "gpt") return "assistant";
  return written == "observation" ? "tool" : written;
}

Json with_tool_calls(Json message) {
  Json calls = message.value("content", Json());
  if (calls.is_string()) calls = Json::parse(calls.get_ref<const std::string&>(), nullptr, false);
  if (calls.is_object()) calls = Json::array({std::move(calls)});
  if (!calls.is_array() || calls.empty() || !std::ranges::all_of(calls, is_call))
    throw ConversationRefused(
        "has a message of the role function_call that is no JSON with \"name\" and \"arguments\"; one that is to be "
        "read as a text is named in data.fine_tuning.roles");
  message["role"] = "assistant";
  message.erase("content");
  for (const Json& call : calls) message["tool_calls"].push_back({{"type", "function"}, {"function", call}});
  return message;
}

}  // namespace llmtrain
