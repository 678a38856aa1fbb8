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

using JsonValue = nlohmann::json;

// What a template writes around the messages.
struct TemplateTexts {
  std::string_view begin;        // before the first message
  std::string_view before_role;  // a message's header
  std::string_view after_role;
  std::string_view end;  // the token that ends a message, which the model has to learn
  std::string_view after_end;
  bool trims = false;  // white space around the content
};

const TemplateTexts& texts_of(ChatTemplate chat) {
  static constexpr TemplateTexts chatml{"", "<|im_start|>", "\n", "<|im_end|>", "\n", false};
  static constexpr TemplateTexts llama3{
      "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", "", true};
  switch (chat) {
    case ChatTemplate::chatml:
      return chatml;
    case ChatTemplate::llama3:
      return llama3;
  }
  return chatml;
}

class ConversationReader {
 public:
  ConversationReader(const Record& record, const std::filesystem::path& file, const FineTuningRecipe& recipe)
      : record_(record), file_(file), recipe_(recipe), texts_(texts_of(recipe.chat_template)) {}

  Conversation read() {
    if (is_too_large_json(record_.text)) refuse(std::string(too_large_json));
    const JsonValue object = JsonValue::parse(record_.text, nullptr, false);
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

  std::string text_at(const JsonValue& object, const std::string& key) const {
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

  void add_messages(const JsonValue& object, const std::string& key, bool answers_count) {
    if (!object.contains(key) || !object[key].is_array()) refuse("has no list \"" + key + "\"");
    for (const JsonValue& message : object[key]) {
      if (!message.is_object()) refuse("has something else than messages in \"" + key + "\"");
      if (conversation_.parts.empty()) add(texts_.begin, false);
      add_message(role_of(message), text_at(message, "content"), answers_count);
    }
  }

  std::string role_of(const JsonValue& message) const {
    constexpr std::array<std::string_view, 4> roles = {"system", "user", "assistant", "tool"};
    const std::string role = text_at(message, "role");
    if (std::ranges::find(roles, role) == roles.end())
      refuse("has the role " + JsonValue(role).dump(-1, ' ', false, JsonValue::error_handler_t::replace) +
             " instead of system, user, assistant or tool");
    return role;
  }

  void add_message(const std::string& role, std::string_view content, bool answers_count) {
    add(texts_.before_role, false);
    add(role, false);
    add(texts_.after_role, false);
    if (texts_.trims) content = trimmed(content);
    // Through the end of the answer, so that the model learns to stop.
    const bool counts = answers_count && role == "assistant";
    add(content, counts);
    add(texts_.end, counts);
    add(texts_.after_end, false);
  }

  static std::string_view trimmed(std::string_view text) {
    constexpr std::string_view space = " \t\n\r\f\v";
    const auto begin = text.find_first_not_of(space);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(space) - begin + 1);
  }

  const Record& record_;
  const std::filesystem::path& file_;
  const FineTuningRecipe& recipe_;
  const TemplateTexts& texts_;
  Conversation conversation_;
};

}  // namespace

std::string_view end_of_message(ChatTemplate chat) { return texts_of(chat).end; }

Conversation conversation_of(const Record& record, const std::filesystem::path& file, const FineTuningRecipe& recipe) {
  return ConversationReader(record, file, recipe).read();
}

}  // namespace llmtrain
