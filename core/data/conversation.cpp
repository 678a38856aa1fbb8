// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversation.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/json/json_memory.h"

namespace llmtrain {
namespace {

// Neither null nor an empty text or list: what says nothing need not be written.
bool says_something(const Json& value) {
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.is_null() && !(value.is_array() && value.empty());
}

class ConversationReader {
 public:
  ConversationReader(const Record& record, const std::filesystem::path& file, const FineTuningRecipe& recipe)
      : record_(record), file_(file), recipe_(recipe) {}

  Conversation read() {
    if (is_too_large_json(record_.text)) refuse(std::string(too_large_json));
    const Json object = Json::parse(record_.text, nullptr, false);
    if (record_.line == 0 || !object.is_object()) refuse("is not a JSON object");
    if (object.contains("messages")) {
      add_messages(object, "messages", true);
    } else if (object.contains("prompt") && object["prompt"].is_string()) {
      conversation_.is_plain = true;
      add(text_at(object, "prompt"), false);
      add(text_at(object, "completion"), true);
    } else if (object.contains("prompt")) {
      add_messages(object, "prompt", false);
      add_messages(object, "completion", true);
    } else {
      refuse("has neither \"messages\" nor \"prompt\"");
    }
    return std::move(conversation_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::bad_data,
                fmt::format("{}: line {} {}; with data.fine_tuning every line is an object with \"messages\", a list "
                            "of {{\"role\": …, \"content\": …}}, or with \"prompt\" and \"completion\"",
                            file_.string(), record_.line, what));
  }

  std::string text_at(const Json& object, const std::string& key) const {
    if (!object.contains(key) || !object[key].is_string()) refuse("has no string \"" + key + "\"");
    return object[key].get<std::string>();
  }

  // Parts that count alike are one text, so that nothing but the beginning and the end of an answer separates tokens.
  void add(std::string_view text, bool counts) {
    counts = counts || recipe_.counted == CountedTokens::all;
    auto& parts = conversation_.parts;
    if (text.empty()) return;
    if (parts.empty() || parts.back().counts != counts) parts.push_back({"", counts});
    parts.back().text += text;
  }

  // The messages at `key`, behind those that were already read.
  void add_messages(const Json& object, const std::string& key, bool answers_count) {
    if (!object.contains(key) || !object[key].is_array()) refuse("has no list \"" + key + "\"");
    for (const Json& message : object[key]) {
      if (!message.is_object()) refuse("has something else than messages in \"" + key + "\"");
      check_role(message);
      text_at(message, "content");
      check_keys(message);
      messages_.push_back(message);
    }
    if (answers_count) write_messages(messages_.size() - object[key].size());
  }

  void check_role(const Json& message) const {
    constexpr std::array<std::string_view, 4> roles = {"system", "user", "assistant", "tool"};
    const std::string role = text_at(message, "role");
    if (std::ranges::find(roles, role) == roles.end())
      refuse("has the role " + Json(role).dump(-1, ' ', false, Json::error_handler_t::replace) +
             " instead of system, user, assistant or tool");
  }

  // What the template would leave out in silence.
  void check_keys(const Json& message) const {
    for (const auto& [key, value] : message.items()) {
      if (key == "role" || key == "content" || !says_something(value)) continue;
      refuse("has a message with " + Json(key).dump(-1, ' ', false, Json::error_handler_t::replace) +
             ", which data.fine_tuning.template does not write");
    }
  }

  void write_messages(std::size_t first_counted) {
    try {
      for (const LabelledText& part :
           MessageWriter::named(recipe_.chat_template).write({{"messages", messages_}}, first_counted))
        add(part.text, part.counts);
    } catch (const jinja::TemplateError& error) {
      refuse(fmt::format("is refused by the chat template: {}", error.what()));
    }
  }

  const Record& record_;
  const std::filesystem::path& file_;
  const FineTuningRecipe& recipe_;
  Json messages_ = Json::array();
  Conversation conversation_;
};

}  // namespace

std::string end_of_message(ChatTemplate chat) {
  const Json empty = {{"messages", Json::array({{{"role", "assistant"}, {"content", ""}}})}};
  std::string end;
  for (const LabelledText& part : MessageWriter::named(chat).write(empty, 0))
    if (part.counts) end += part.text;
  return end;
}

Conversation conversation_of(const Record& record, const std::filesystem::path& file, const FineTuningRecipe& recipe) {
  return ConversationReader(record, file, recipe).read();
}

}  // namespace llmtrain
