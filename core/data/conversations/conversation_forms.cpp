// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/conversation_forms.h"

#include <spdlog/fmt/fmt.h>

#include "core/data/conversations/conversation_refused.h"
#include "core/data/conversations/message_roles.h"
#include "core/data/conversations/preference_pairs.h"

namespace llmtrain {
namespace {

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

class TurnsReader {
 public:
  TurnsReader(const Json& record, const FineTuningRecipe& recipe) : record_(record), recipe_(recipe) {}

  Turns read() {
    const ConversationFieldsRecipe& fields = recipe_.fields;
    const std::string messages = key_in(record_, fields.messages, message_keys);
    const std::string prompt = key_in(record_, fields.prompt, {"prompt"});
    const std::string completion = key_in(record_, fields.completion, {"completion"});
    const std::string instruction = key_in(record_, fields.instruction, {"instruction"});
    if (record_.contains(messages)) {
      add_messages(messages, true);
    } else if (record_.contains(prompt) && record_[prompt].is_string()) {
      if (has_system())
        throw ConversationRefused(
            "has a \"system\" beside a prompt of plain text, which has no roles; data.fine_tuning.fields.instruction "
            "and "
            "output make messages of such texts");
      turns_.plain = {text_at(record_, prompt), text_at(record_, completion)};
      return std::move(turns_);
    } else if (record_.contains(prompt)) {
      add_messages(prompt, false);
      add_messages(completion, true);
    } else if (record_.contains(instruction)) {
      add_instruction(instruction);
    } else {
      throw ConversationRefused(
          fmt::format("has neither {} nor {} nor {}", quoted(messages), quoted(prompt), quoted(instruction)));
    }
    add_system();
    add_variables();
    return std::move(turns_);
  }

 private:
  static std::string text_at(const Json& object, const std::string& key) {
    if (!object.contains(key) || !object[key].is_string()) throw ConversationRefused("has no string " + quoted(key));
    return object[key].get<std::string>();
  }

  void add(Json message, bool counts) {
    messages_.push_back(std::move(message));
    turns_.counted.push_back(counts);
  }

  // Tables hold a list as a text of JSON.
  Json list_at(const std::string& key) const {
    Json list = record_.contains(key) ? record_[key] : Json();
    if (list.is_string()) list = Json::parse(list.get_ref<const std::string&>(), nullptr, false);
    if (!list.is_array()) throw ConversationRefused("has no list " + quoted(key));
    return list;
  }

  // The messages at `key`, behind those that were already read.
  void add_messages(const std::string& key, bool count) {
    const Json list = list_at(key);
    if (count && list.empty()) throw ConversationRefused("has no message in " + quoted(key));
    for (const Json& written : list) {
      if (!written.is_object()) throw ConversationRefused("has something else than messages in " + quoted(key));
      Json message = renamed(written);
      const bool counts = take_weight(message);
      add(std::move(message), count && counts);
    }
  }

  // With the names that templates know, in the order of its keys, and without what is null.
  Json renamed(const Json& written) const {
    const std::string role = key_in(written, recipe_.fields.role, role_keys);
    const std::string content = key_in(written, recipe_.fields.content, content_keys);
    Json message = Json::object();
    for (const auto& [key, value] : written.items()) {
      if (value.is_null()) continue;
      if (key == role) {
        message["role"] = known_role(text_at(written, role), recipe_.roles);
      } else {
        message[key == content ? "content" : key] = value;
      }
    }
    if (!message.contains("role")) throw ConversationRefused("has a message with no string " + quoted(role));
    return message["role"] == tool_call_role ? with_tool_calls(std::move(message)) : message;
  }

  // As in data for OpenAI's fine-tuning.
  static bool take_weight(Json& message) {
    const auto weight = message.find("weight");
    if (weight == message.end()) return true;
    if (!weight->is_number() || (*weight != 0 && *weight != 1))
      throw ConversationRefused("has a message with a \"weight\" that is neither 0 nor 1");
    const bool counts = *weight == 1;
    message.erase(weight);
    return counts;
  }

  void add_instruction(const std::string& key) {
    const std::string input = key_in(record_, recipe_.fields.input, {"input"});
    if (record_.contains("history") && !record_["history"].empty())
      throw ConversationRefused("has a \"history\", which is not read; write its turns as messages");
    std::string asked = text_at(record_, key);
    if (record_.contains(input) && !record_[input].is_null())
      if (const std::string more = text_at(record_, input); !more.empty()) asked += "\n" + more;
    add({{"role", "user"}, {"content", std::move(asked)}}, true);
    add({{"role", "assistant"}, {"content", text_at(record_, key_in(record_, recipe_.fields.output, {"output"}))}},
        true);
  }

  bool has_system() const {
    return record_.contains("system") && !record_["system"].is_null() && !text_at(record_, "system").empty();
  }

  void add_system() {
    if (!has_system()) return;
    if (!messages_.empty() && messages_.front()["role"] == "system")
      throw ConversationRefused("has both a \"system\" and a message of that role");
    messages_.insert(messages_.begin(), Json{{"role", "system"}, {"content", text_at(record_, "system")}});
    turns_.counted.insert(turns_.counted.begin(), true);
  }

  void add_variables() {
    if (record_.contains("chat_template_kwargs") && record_["chat_template_kwargs"].is_object())
      turns_.variables.update(record_["chat_template_kwargs"]);
    for (const char* key : {"tools", "documents"}) {
      if (!record_.contains(key) || record_[key].is_null()) continue;
      Json list = record_[key];
      // Some files hold a text of JSON there.
      if (list.is_string() && list.get_ref<const std::string&>().empty()) continue;
      if (list.is_string()) list = Json::parse(list.get_ref<const std::string&>(), nullptr, false);
      if (!list.is_array()) throw ConversationRefused("has " + quoted(key) + " that are no list");
      turns_.variables[key] = std::move(list);
    }
    turns_.variables["messages"] = std::move(messages_);
  }

  const Json& record_;
  const FineTuningRecipe& recipe_;
  Json messages_ = Json::array();
  Turns turns_;
};

}  // namespace

Turns turns_of(const Json& record, const FineTuningRecipe& recipe) {
  if (!is_preference(record, recipe)) return TurnsReader(record, recipe).read();
  if (recipe.preferences == Preferences::refuse)
    throw ConversationRefused(
        "is a preference between answers, which no loss compares; data.fine_tuning.preferences \"chosen\" trains on "
        "those "
        "that are chosen");
  if (is_undesired(record)) {
    Turns undesired;
    undesired.is_undesired = true;
    return undesired;
  }
  const Json preferred = with_preferred_answer(record, recipe);
  return TurnsReader(preferred, recipe).read();
}

}  // namespace llmtrain
