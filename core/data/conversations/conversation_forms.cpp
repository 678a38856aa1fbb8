// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/conversation_forms.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "core/data/conversations/conversation_refused.h"

namespace llmtrain {
namespace {

using Names = std::initializer_list<const char*>;

// The key of `object` that the recipe names, else the first of `known` that it has; `known`'s first where it has none.
std::string key_in(const Json& object, const std::optional<std::string>& named, Names known) {
  if (named) return *named;
  for (const char* name : known)
    if (object.contains(name)) return name;
  return *known.begin();
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

class TurnsReader {
 public:
  TurnsReader(const Json& record, const FineTuningRecipe& recipe) : record_(record), recipe_(recipe) {}

  Turns read() {
    const ConversationFieldsRecipe& fields = recipe_.fields;
    const std::string messages = key_in(record_, fields.messages, {"messages", "conversations", "conversation"});
    const std::string prompt = key_in(record_, fields.prompt, {"prompt"});
    const std::string completion = key_in(record_, fields.completion, {"completion"});
    const std::string instruction = key_in(record_, fields.instruction, {"instruction"});
    if (record_.contains(messages)) {
      add_messages(messages, true);
    } else if (record_.contains("chosen") && record_.contains("rejected")) {
      throw ConversationRefused("is a preference between \"chosen\" and \"rejected\", of which training has no loss");
    } else if (record_.contains(prompt) && record_[prompt].is_string()) {
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
    const std::string role = key_in(written, recipe_.fields.role, {"role", "from"});
    const std::string content = key_in(written, recipe_.fields.content, {"content", "value"});
    Json message = Json::object();
    for (const auto& [key, value] : written.items()) {
      if (value.is_null()) continue;
      if (key == role) {
        message["role"] = known_role(text_at(written, role));
      } else {
        message[key == content ? "content" : key] = value;
      }
    }
    if (!message.contains("role")) throw ConversationRefused("has a message with no string " + quoted(role));
    return message;
  }

  std::string known_role(const std::string& written) const {
    const auto is_in = [&](const std::vector<std::string>& names) {
      return std::ranges::find(names, written) != names.end();
    };
    const ConversationRolesRecipe& roles = recipe_.roles;
    if (is_in(roles.user)) return "user";
    if (is_in(roles.assistant)) return "assistant";
    if (is_in(roles.system)) return "system";
    if (is_in(roles.tool)) return "tool";
    if (written == "human") return "user";
    if (written == "gpt") return "assistant";
    return written == "observation" ? "tool" : written;
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

  void add_system() {
    if (!record_.contains("system") || record_["system"].is_null()) return;
    std::string system = text_at(record_, "system");
    if (system.empty()) return;
    if (!messages_.empty() && messages_.front()["role"] == "system")
      throw ConversationRefused("has both a \"system\" and a message of that role");
    messages_.insert(messages_.begin(), Json{{"role", "system"}, {"content", std::move(system)}});
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

Turns turns_of(const Json& record, const FineTuningRecipe& recipe) { return TurnsReader(record, recipe).read(); }

}  // namespace llmtrain
