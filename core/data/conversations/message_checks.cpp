// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/message_checks.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "core/data/conversations/conversation_refused.h"

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 4> usual_roles = {"system", "user", "assistant", "tool"};

// A name from a file of others, as it may appear in a message.
std::string shown(const std::string& name) { return Json(name).dump(-1, ' ', false, Json::error_handler_t::replace); }

// Neither null nor an empty text or list: what says nothing need not be written.
bool says_something(const Json& value) {
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.is_null() && !(value.is_array() && value.empty());
}

bool is_text(const Json& part) {
  return part.is_object() && part.value("type", "") == "text" && part.contains("text") && part["text"].is_string();
}

void check_content(Json& message, const MessageWriter& writer) {
  const auto content = message.find("content");
  if (content == message.end()) {
    // A call of tools, as it may be, stands in its place.
    const bool says_more = std::ranges::any_of(
        message.items(), [](const auto& item) { return item.key() != "role" && says_something(item.value()); });
    if (!says_more) throw ConversationRefused("has a message with no string \"content\"");
    return;
  }
  if (content->is_string()) return;
  if (!content->is_array() || content->empty()) throw ConversationRefused("has a message with no string \"content\"");
  if (!std::ranges::all_of(*content, is_text))
    throw ConversationRefused("has a message with \"content\" that is not of texts alone");
  if (writer.mentions("text")) return;
  if (content->size() > 1)
    throw ConversationRefused(
        "has a message with \"content\" in several parts, which the chat template does not write");
  const std::string text = content->front()["text"].get<std::string>();
  *content = text;
}

}  // namespace

// A conversation as it will be written: rendered once, when somebody first asks.
class MessageChecks::Whole {
 public:
  Whole(const Json& conversation, const MessageWriter& writer) : conversation_(conversation), writer_(writer) {}

  const Json& messages() const { return conversation_["messages"]; }
  const MessageWriter& writer() const { return writer_; }

  // Whether the text is the same without what `remove` takes from the messages. A template that refuses what is left
  // does read it.
  template <class Remove>
  bool is_same_without(Remove remove) {
    Json without = conversation_;
    remove(without["messages"]);
    if (!text_) text_ = writer_.text(conversation_);
    try {
      return writer_.text(without) == *text_;
    } catch (const jinja::TemplateError&) {
      return false;
    }
  }

 private:
  const Json& conversation_;
  const MessageWriter& writer_;
  std::optional<std::string> text_;
};

void MessageChecks::check_role(Whole& whole, std::size_t place) {
  const std::string role = whole.messages()[place]["role"].get<std::string>();
  const auto known = std::pair(&whole.writer(), role);
  if (whole.writer().mentions(role) || role == "user" || role == "assistant" || written_roles_.contains(known)) return;
  if (std::ranges::find(usual_roles, role) == usual_roles.end())
    throw ConversationRefused("has the role " + shown(role) +
                              " instead of system, user, assistant or tool (data.fine_tuning.roles)");
  if (whole.is_same_without([&](Json& messages) { messages.erase(place); }))
    throw ConversationRefused("has a message of the role " + role + ", which the chat template does not write");
  written_roles_.insert(known);
}

void MessageChecks::check_keys(Whole& whole, std::size_t place) {
  for (const auto& item : whole.messages()[place].items()) {
    const std::string& key = item.key();
    if (key == "role" || key == "content" || !says_something(item.value()) || whole.writer().mentions(key)) continue;
    if (whole.is_same_without([&](Json& messages) { messages[place].erase(key); }))
      throw ConversationRefused(fmt::format(
          "has a message with {}, which the chat template does not write (data.fine_tuning.leave_out)", shown(key)));
  }
}

void MessageChecks::apply(Json& conversation, const MessageWriter& writer) {
  if (conversation.contains("tools") && says_something(conversation["tools"]) && !writer.mentions("tools"))
    throw ConversationRefused("has \"tools\", which the chat template does not write");
  for (Json& message : conversation["messages"]) {
    for (const std::string& key : recipe_.left_out)
      if (!writer.mentions(key)) message.erase(key);
    check_content(message, writer);
  }
  Whole whole(conversation, writer);
  for (std::size_t place = 0; place < conversation["messages"].size(); ++place) {
    check_keys(whole, place);
    check_role(whole, place);
  }
}

}  // namespace llmtrain
