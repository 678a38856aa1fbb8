// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/text_lines.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/json/json_text.h"

namespace llmtrain::app {
namespace {

struct Line {
  std::string where;  // "FILE: line N"
  std::string text;
};

[[noreturn]] void fail(const Line& line, const std::string& what) {
  throw Error(ExitCode::bad_data, line.where + ": " + what);
}

std::vector<Line> lines_of(const std::string& file) {
  const std::string content = read_file(file);
  std::vector<Line> lines;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    std::string text = content.substr(begin, end - begin);
    if (text.ends_with('\r')) text.pop_back();
    if (++number; !text.empty()) lines.push_back({file + ": line " + std::to_string(number), std::move(text)});
    begin = end + 1;
  }
  if (lines.empty()) throw Error(ExitCode::bad_data, file + ": has no line with text");
  return lines;
}

Json object_of(const Line& line) {
  JsonText json = parse_json(line.text);
  if (!json.error.empty()) fail(line, json.error);
  if (!json.value.is_object()) fail(line, "is " + std::string(kind_of(json.value)) + "; must be an object");
  return std::move(json.value);
}

std::string text_at(const Line& line, const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_string()) return found->get<std::string>();
  fail(line, std::string("\"") + key + "\" " +
                 (found == object.end() ? "is missing" : "is " + std::string(kind_of(*found))) + "; must be a string");
}

Json prompt_of(const Line& line) {
  const Json object = object_of(line);
  const auto messages = object.find("messages");
  if (messages == object.end() || object.contains("prompt")) return text_at(line, object, "prompt");
  const auto is_message = [](const Json& message) {
    return message.is_object() && message.contains("role") && message["role"].is_string();
  };
  if (!messages->is_array() || messages->empty() || !std::ranges::all_of(*messages, is_message))
    fail(line, "\"messages\" must be a list of objects, each with a \"role\"");
  return *messages;
}

KnownQuestion question_of(const Line& line, const std::string& delimiter) {
  const Json object = object_of(line);
  KnownQuestion known;
  known.question.context = text_at(line, object, object.contains("prompt") ? "prompt" : "context");
  if (known.question.context.find_first_not_of(" \t\n\v\f\r") == std::string::npos)
    fail(line, "the context has no text; the model needs some to begin with");
  const auto choices = object.find("choices");
  if (choices == object.end() || !choices->is_array() || choices->size() < 2)
    fail(line, "\"choices\" must be a list of at least two strings");
  for (const Json& choice : *choices) {
    if (!choice.is_string() || choice.get<std::string>().empty())
      fail(line, "\"choices\" has " + shown_value(choice) + "; must be strings with text");
    known.choices.push_back(choice.get<std::string>());
    known.question.choices.push_back(delimiter + known.choices.back());
  }
  const auto answer = object.find("answer");
  if (answer == object.end() || !answer->is_number_unsigned() || answer->get<std::uint64_t>() >= choices->size())
    fail(line, "\"answer\" must be the index of a choice, 0 to " + std::to_string(choices->size() - 1));
  known.answer = answer->get<std::size_t>();
  return known;
}

// The value of a key that must be there, which `read` makes of its JSON.
template <class Value>
Value value_at(const Line& line, const Json& object, const char* key, const char* rule) {
  const auto found = object.find(key);
  if (found == object.end()) fail(line, std::string("\"") + key + "\" is missing; must be " + rule);
  try {
    return found->get<Value>();
  } catch (const Json::exception&) {
    fail(line, std::string("\"") + key + "\" is " + shown_value(*found) + "; must be " + rule);
  }
}

Rollout rollout_of(const Line& line) {
  using Ids = std::vector<std::int64_t>;
  const Json object = object_of(line);
  Rollout rollout{.place = line.where};
  rollout.prompt = value_at<Ids>(line, object, "prompt_token_ids", "a list of at least one token id");
  rollout.answer = value_at<Ids>(line, object, "token_ids", "a list of at least one token id");
  if (rollout.prompt.empty() || rollout.answer.empty())
    fail(line, "\"prompt_token_ids\" and \"token_ids\" must have at least one token id each");
  if (object.contains("routed_experts"))
    rollout.experts = value_at<std::vector<TokenExperts>>(
        line, object, "routed_experts", "for each token a list of lists of experts, one for each layer that has some");
  return rollout;
}

}  // namespace

std::vector<Json> read_prompts(const std::string& file) {
  const bool is_json = std::filesystem::path(file).extension() == ".jsonl";
  std::vector<Json> prompts;
  for (const Line& line : lines_of(file)) prompts.push_back(is_json ? prompt_of(line) : Json(line.text));
  return prompts;
}

std::vector<Rollout> read_rollouts(const std::string& file) {
  std::vector<Rollout> rollouts;
  for (const Line& line : lines_of(file)) rollouts.push_back(rollout_of(line));
  return rollouts;
}

std::vector<KnownQuestion> read_questions(const std::string& file, const std::string& delimiter) {
  std::vector<KnownQuestion> questions;
  for (const Line& line : lines_of(file)) questions.push_back(question_of(line, delimiter));
  return questions;
}

}  // namespace llmtrain::app
