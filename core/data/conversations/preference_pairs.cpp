// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/preference_pairs.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "core/data/conversations/conversation_refused.h"
#include "core/data/conversations/message_roles.h"

namespace llmtrain {
namespace {

// Keys of a record, as the recipe names them.
struct PairKeys {
  explicit PairKeys(const ConversationFieldsRecipe& fields)
      : chosen(fields.chosen.value_or("chosen")),
        rejected(fields.rejected.value_or("rejected")),
        prompt(fields.prompt.value_or("prompt")),
        completion(fields.completion.value_or("completion")),
        instruction(fields.instruction.value_or("instruction")),
        output(fields.output.value_or("output")),
        role(fields.role.value_or("role")),
        content(fields.content.value_or("content")) {}

  std::string chosen, rejected, prompt, completion, instruction, output, role, content;
};

// Whether another form's key is the chosen answer's: the recipe says how it is read.
bool is_read_otherwise(const ConversationFieldsRecipe& fields, const std::string& chosen) {
  return std::ranges::any_of(
      std::array{fields.messages, fields.prompt, fields.completion, fields.instruction, fields.input, fields.output},
      [&](const auto& named) { return named == chosen; });
}

// Whether messages end with an answer, beside which the two others are not needed.
bool end_with_answer(const Json& messages, const FineTuningRecipe& recipe) {
  if (!messages.is_array() || messages.empty() || !messages.back().is_object()) return false;
  const Json& last = messages.back();
  const auto role = last.find(key_in(last, recipe.fields.role, role_keys));
  return role != last.end() && role->is_string() &&
         known_role(role->get_ref<const std::string&>(), recipe.roles) == "assistant";
}

bool has_label(const Json& record, const PairKeys& keys) {
  return record.contains("label") && record["label"].is_boolean() && record.contains(keys.prompt) &&
         record.contains(keys.completion);
}

// A list of messages as itself, one message as a list; tables hold both as texts of JSON. Other texts as they are.
Json as_answer(Json answer) {
  if (answer.is_string()) {
    Json parsed = Json::parse(answer.get_ref<const std::string&>(), nullptr, false);
    if ((parsed.is_array() && !parsed.empty() && parsed.front().is_object()) || parsed.is_object())
      answer = std::move(parsed);
  }
  return answer.is_object() ? Json::array({std::move(answer)}) : answer;
}

class PairReader {
 public:
  PairReader(Json record, const FineTuningRecipe& recipe)
      : record_(std::move(record)),
        recipe_(recipe),
        keys_(recipe.fields),
        chosen_(as_answer(record_[keys_.chosen])),
        rejected_(as_answer(record_[keys_.rejected])) {}

  Json read() {
    if (!(chosen_.is_string() && rejected_.is_string()) && !(chosen_.is_array() && rejected_.is_array()))
      throw ConversationRefused(fmt::format(
          "has \"{}\" and \"{}\" that are neither two texts nor two lists of messages", keys_.chosen, keys_.rejected));
    if (chosen_ == rejected_)
      throw ConversationRefused(fmt::format("has the same \"{}\" and \"{}\"", keys_.chosen, keys_.rejected));
    const std::string messages = key_in(record_, recipe_.fields.messages, message_keys);
    if (record_.contains(messages)) {
      Json prompt = std::move(record_[messages]);
      record_.erase(messages);
      answer(std::move(prompt), as_messages(chosen_));
    } else if (record_.contains(keys_.prompt)) {
      read_prompt();
    } else if (record_.contains(keys_.instruction)) {
      record_[keys_.output] = chosen_;
    } else {
      split();
    }
    return std::move(record_);
  }

 private:
  void answer(Json prompt, Json completion) {
    record_[keys_.prompt] = std::move(prompt);
    record_[keys_.completion] = std::move(completion);
  }

  Json message(const char* role, const Json& text) const { return {{keys_.role, role}, {keys_.content, text}}; }

  Json as_messages(const Json& answer) const {
    return answer.is_string() ? Json::array({message("assistant", answer)}) : answer;
  }

  void read_prompt() {
    const Json prompt = record_[keys_.prompt];
    if (!prompt.is_string()) return answer(prompt, as_messages(chosen_));
    if (chosen_.is_string()) return answer(prompt, chosen_);
    if (!chosen_.empty() && !rejected_.empty() && chosen_.front() == rejected_.front()) return split();
    answer(Json::array({message("user", prompt)}), chosen_);
  }

  // What the two share is the prompt.
  void split() {
    chosen_.is_string() ? split_texts(chosen_.get<std::string>(), rejected_.get<std::string>()) : split_messages();
  }

  void split_messages() {
    const auto same = static_cast<std::size_t>(std::ranges::mismatch(chosen_, rejected_).in1 - chosen_.begin());
    check_shared(same, chosen_.size());
    const auto middle = chosen_.begin() + static_cast<std::ptrdiff_t>(same);
    answer(Json(Json::array_t(chosen_.begin(), middle)), Json(Json::array_t(middle, chosen_.end())));
  }

  void split_texts(const std::string& chosen, const std::string& rejected) {
    auto same = static_cast<std::size_t>(std::ranges::mismatch(chosen, rejected).in1 - chosen.begin());
    // Not within a character of UTF-8, and as TRL has it, with the space before the answer.
    while (same > 0 && same < chosen.size() && (static_cast<unsigned char>(chosen[same]) & 0xC0U) == 0x80U) --same;
    if (same > 0 && same < chosen.size() && chosen[same - 1] == ' ') --same;
    check_shared(same, chosen.size());
    answer(chosen.substr(0, same), chosen.substr(same));
  }

  void check_shared(std::size_t same, std::size_t size) const {
    if (same == 0)
      throw ConversationRefused(
          fmt::format("has neither \"{}\", \"{}\" nor messages, and \"{}\" and \"{}\" do not begin alike", keys_.prompt,
                      keys_.instruction, keys_.chosen, keys_.rejected));
    if (same == size)
      throw ConversationRefused(
          fmt::format("has nothing \"{}\" with which \"{}\" does not begin", keys_.chosen, keys_.rejected));
  }

  Json record_;
  const FineTuningRecipe& recipe_;
  PairKeys keys_;
  Json chosen_, rejected_;
};

}  // namespace

bool is_preference(const Json& record, const FineTuningRecipe& recipe) {
  const PairKeys keys(recipe.fields);
  if (has_label(record, keys)) return true;
  if (!record.contains(keys.chosen) || !record.contains(keys.rejected)) return false;
  if (is_read_otherwise(recipe.fields, keys.chosen)) return false;
  const std::string messages = key_in(record, recipe.fields.messages, message_keys);
  return !record.contains(messages) || !end_with_answer(record[messages], recipe);
}

Json with_preferred_answer(Json record, const FineTuningRecipe& recipe) {
  if (has_label(record, PairKeys(recipe.fields))) return record;
  return PairReader(std::move(record), recipe).read();
}

bool is_undesired(const Json& record) { return record.contains("label") && record["label"] == false; }

}  // namespace llmtrain
