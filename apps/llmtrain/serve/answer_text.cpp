// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/answer_text.h"

#include <spdlog/fmt/fmt.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <utility>

namespace llmtrain::app {
namespace {

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Differs from that of any other request of this process.
std::string new_id(ApiKind kind) {
  static std::atomic<std::uint64_t> count{0};
  static const std::int64_t start = seconds_now();
  return fmt::format("{}-{:x}-{:x}", kind == ApiKind::chat ? "chatcmpl" : "cmpl", start, count++);
}

}  // namespace

std::string json_line(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

AnswerText::AnswerText(const ServedModel& model, const ApiRequest& request)
    : model_(model),
      request_(request),
      id_(new_id(request.kind)),
      created_(seconds_now()),
      choices_(static_cast<std::size_t>(request.choices())) {}

Json AnswerText::frame(const char* object) const {
  Json answer;
  answer["id"] = id_;
  answer["object"] = object;
  answer["created"] = created_;
  answer["model"] = model_.name();
  answer["choices"] = Json::array();
  return answer;
}

Json AnswerText::usage() const {
  Json usage;
  usage["prompt_tokens"] = request_.prompt_tokens();
  usage["completion_tokens"] = generated_;
  usage["total_tokens"] = request_.prompt_tokens() + generated_;
  return usage;
}

Json AnswerText::likely_token(std::int64_t id, double log_probability) const {
  const std::string bytes = model_.bytes_of(id);
  Json token;
  token["token"] = bytes;
  token["logprob"] = log_probability;
  token["bytes"] = Json::array();
  for (const char byte : bytes) token["bytes"].push_back(static_cast<unsigned char>(byte));
  return token;
}

Json AnswerText::chat_log_probabilities(Choice& choice) const {
  Json content = Json::array();
  for (; choice.shown < choice.tokens.size(); ++choice.shown) {
    const ServedToken& token = choice.tokens[choice.shown];
    if (model_.ends_texts(token.id)) continue;  // no part of the text
    Json entry = likely_token(token.id, *token.log_probability);
    entry["top_logprobs"] = Json::array();
    for (const auto& likely : token.likeliest)
      entry["top_logprobs"].push_back(likely_token(likely.id, likely.log_probability));
    content.push_back(std::move(entry));
  }
  Json result;
  result["content"] = std::move(content);
  return result;
}

Json AnswerText::log_probabilities(Choice& choice) const {
  if (!request_.text.log_probabilities) return {};
  if (request_.kind == ApiKind::chat) return chat_log_probabilities(choice);
  Json result = {{"tokens", Json::array()},
                 {"token_logprobs", Json::array()},
                 {"top_logprobs", Json::array()},
                 {"text_offset", Json::array()}};
  for (; choice.shown < choice.tokens.size(); ++choice.shown) {
    const ServedToken& token = choice.tokens[choice.shown];
    if (model_.ends_texts(token.id)) continue;  // no part of the text
    const std::string bytes = model_.bytes_of(token.id);
    result["tokens"].push_back(bytes);
    result["token_logprobs"].push_back(*token.log_probability);
    Json likeliest = Json::object();
    for (const auto& likely : token.likeliest) likeliest[model_.bytes_of(likely.id)] = likely.log_probability;
    result["top_logprobs"].push_back(std::move(likeliest));
    result["text_offset"].push_back(choice.offset);
    choice.offset += static_cast<std::int64_t>(bytes.size());
  }
  return result;
}

Json AnswerText::choice_json(std::size_t index, const std::string& text, const char* chat_key, Choice& choice) const {
  const std::size_t first = choice.shown;
  Json result;
  result["index"] = index;
  if (request_.kind == ApiKind::completions) {
    result["text"] = text;
  } else {
    Json message;
    if (std::string_view(chat_key) == "message") message["role"] = "assistant";
    message["content"] = text;
    result[chat_key] = std::move(message);
  }
  result["logprobs"] = log_probabilities(choice);
  result["finish_reason"] = choice.finish.empty() ? Json() : Json(choice.finish);
  if (request_.returns_ids) {
    Json ids = Json::array();
    for (std::size_t i = first; i < choice.tokens.size(); ++i) ids.push_back(choice.tokens[i].id);
    result["token_ids"] = std::move(ids);
  }
  if (request_.text.returns_experts) {
    Json experts = Json::array();
    for (std::size_t i = first; i < choice.tokens.size(); ++i)
      for (const TokenExperts& token : choice.tokens[i].experts) experts.push_back(token);
    result["routed_experts"] = std::move(experts);
  }
  choice.shown = choice.tokens.size();
  return result;
}

Json AnswerText::opening(std::size_t choice) const {
  if (request_.kind == ApiKind::completions) return {};
  Json answer = frame("chat.completion.chunk");
  Json first;
  first["index"] = choice;
  first["delta"] = {{"role", "assistant"}, {"content", ""}};
  first["logprobs"] = nullptr;
  first["finish_reason"] = nullptr;
  answer["choices"].push_back(std::move(first));
  return answer;
}

Json AnswerText::event(const AnswerPiece& piece) {
  Choice& choice = choices_[piece.choice];
  ++generated_;
  choice.text += piece.text;
  choice.tokens.push_back(piece.token);
  choice.finish = piece.finish.value_or("");
  if (!request_.streams || (piece.text.empty() && !piece.finish)) return {};
  Json answer = frame(request_.kind == ApiKind::chat ? "chat.completion.chunk" : "text_completion");
  answer["choices"].push_back(choice_json(piece.choice, piece.text, "delta", choice));
  return answer;
}

Json AnswerText::usage_event() const {
  Json answer = frame(request_.kind == ApiKind::chat ? "chat.completion.chunk" : "text_completion");
  answer["usage"] = usage();
  return answer;
}

Json AnswerText::whole() const {
  Json answer = frame(request_.kind == ApiKind::chat ? "chat.completion" : "text_completion");
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Choice choice = choices_[i];
    answer["choices"].push_back(choice_json(i, choice.text, "message", choice));
    if (request_.returns_ids)
      answer["choices"].back()["prompt_token_ids"] = request_.prompts[i / static_cast<std::size_t>(request_.samples)];
  }
  answer["usage"] = usage();
  return answer;
}

}  // namespace llmtrain::app
