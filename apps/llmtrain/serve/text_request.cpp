// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/text_request.h"

#include <spdlog/fmt/fmt.h>

#include <limits>
#include <random>
#include <utility>

#include "apps/llmtrain/serve/api_error.h"

namespace llmtrain::app {
namespace {

constexpr std::int64_t most_choices = 128, most_stops = 16;
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

// Requests without a seed differ from each other, as clients expect.
std::int64_t any_seed() {
  std::random_device device;
  return static_cast<std::int64_t>((std::uint64_t{device()} << 31 | device()) >> 1);
}

void read_choice(RequestFields& fields, ApiRequest& request) {
  ServedText& text = request.text;
  text.temperature = fields.number("temperature", 0, 100).value_or(1);
  text.top_p = fields.number("top_p", 0, 1).value_or(1);
  text.top_k = fields.whole_number("top_k", -1, largest).value_or(0);
  text.top_k = text.top_k < 0 ? 0 : text.top_k;  // elsewhere -1 stands for all
  text.repetition_penalty = fields.number("repetition_penalty", 1e-3, 1e3).value_or(1);
  text.seed = fields.whole_number("seed", std::numeric_limits<std::int64_t>::min(), largest).value_or(any_seed());
  request.samples = fields.whole_number("n", 1, most_choices).value_or(1);
  request.stop = fields.texts("stop", most_stops);
  request.streams = fields.flag("stream");
  request.returns_ids = fields.flag("return_token_ids");
  const Json& options = fields.value("stream_options");
  if (options.is_null()) return;
  if (!request.streams) throw ApiError(400, "stream_options", "goes with \"stream\": true");
  if (!options.is_object()) throw ApiError(400, "stream_options", "must be an object");
  for (const auto& [name, value] : options.items())
    if (name != "include_usage" || !value.is_boolean())
      throw ApiError(400, "stream_options." + name, "may only have include_usage, true or false");
  request.streams_usage = options.value("include_usage", false);
}

// What other servers do and this one does not; only values that mean nothing pass.
void refuse_unsupported(RequestFields& fields) {
  const std::string penalties = "repetition_penalty divides the logits of tokens that are there";
  fields.require_unused("presence_penalty", 0, penalties);
  fields.require_unused("frequency_penalty", 0, penalties);
  fields.require_unused("logit_bias", Json::object(), "leave it out");
  fields.require_unused("best_of", 1, "\"n\" texts are all returned");
  fields.require_unused("suffix", "", "leave it out");
  fields.require_unused("echo", false, "the prompt is not repeated");
  fields.require_unused("tools", Json::array(), "write them into a message");
  fields.require_unused("tool_choice", "none", "leave it out");
  fields.require_unused("functions", Json::array(), "leave it out");
  fields.require_unused("response_format", Json::object({{"type", "text"}}), "answers are text");
  fields.ignore({"user", "metadata", "store", "service_tier", "parallel_tool_calls"});
}

void read_prompts(RequestFields& fields, ServedModel& model, ApiRequest& request) {
  const Json& prompt = fields.value("prompt");
  const auto add = [&](const Json& one) {
    if (one.is_array()) {
      request.prompts.push_back(token_ids_of(one, "prompt"));
    } else if (one.is_string()) {
      request.prompts.push_back(model.tokens_of_text(one.get_ref<const std::string&>()));
    } else {
      throw ApiError(400, "prompt", shown_value(one) + " must be a text, a list of token ids, or a list of such");
    }
  };
  const bool is_list = prompt.is_array() && !prompt.empty() && !prompt.front().is_number();
  if (!is_list) return add(prompt);
  if (prompt.size() > most_choices)
    throw ApiError(400, "prompt", fmt::format("has more than {} prompts", most_choices));
  for (const Json& one : prompt) add(one);
}

void read_log_probabilities(RequestFields& fields, ApiRequest& request) {
  if (request.kind == ApiKind::completions) {
    request.text.log_probabilities = fields.whole_number("logprobs", 0, 20);
    return;
  }
  const bool is_asked = fields.flag("logprobs");
  const auto others = fields.whole_number("top_logprobs", 0, 20);
  if (others && !is_asked) throw ApiError(400, "top_logprobs", "goes with \"logprobs\": true");
  if (is_asked) request.text.log_probabilities = others.value_or(0);
}

void read_length(RequestFields& fields, const ServedModel& model, ApiRequest& request) {
  const bool is_chat = request.kind == ApiKind::chat;
  std::string name = "max_tokens";
  auto asked = fields.whole_number(name, 1, model.limits().tokens);
  if (is_chat) {
    if (const auto newer = fields.whole_number("max_completion_tokens", 1, model.limits().tokens)) {
      asked = newer;
      name = "max_completion_tokens";
    }
  }
  std::int64_t longest = 0;
  for (const auto& prompt : request.prompts) longest = std::max(longest, std::ssize(prompt));
  const std::int64_t room = model.limits().context - longest;
  if (room < 1 || (asked && *asked > room))
    throw ApiError(400, room < 1 ? (is_chat ? "messages" : "prompt") : name,
                   fmt::format("a prompt of {} tokens{} does not fit the {} that this model has for prompt and answer",
                               longest, asked ? fmt::format(" with {} to come", *asked) : "", model.limits().context));
  // As OpenAI's interface has it: completions are short unless asked for, chats go on until they end.
  const std::int64_t otherwise = is_chat ? model.limits().tokens : 16;
  request.text.tokens = asked.value_or(std::min(room, otherwise));
}

}  // namespace

std::int64_t ApiRequest::prompt_tokens() const {
  std::int64_t count = 0;
  for (const auto& prompt : prompts) count += std::ssize(prompt);
  return count;
}

std::vector<ServedText> ApiRequest::texts() const {
  std::vector<ServedText> texts;
  for (std::int64_t choice = 0; choice < choices(); ++choice) {
    texts.push_back(text);
    texts.back().number = choice / samples;
    texts.back().sample = choice % samples;
    texts.back().prompt = prompts[static_cast<std::size_t>(choice / samples)];
  }
  return texts;
}

ApiRequest read_api_request(ApiKind kind, std::string_view body, ServedModel& model) {
  RequestFields fields(body);
  ApiRequest request;
  request.kind = kind;
  model.require_name(fields.text("model"));
  read_choice(fields, request);
  read_log_probabilities(fields, request);
  request.text.returns_experts = fields.flag("return_routed_experts");
  if (request.text.returns_experts && !model.has_experts())
    throw ApiError(400, "return_routed_experts", "this model has no experts; leave it out");
  refuse_unsupported(fields);
  if (kind == ApiKind::chat) {
    request.prompts = {model.tokens_of_chat(fields.value("messages"))};
    model.add_end_of_answer(request.stop);
  } else {
    read_prompts(fields, model, request);
  }
  read_length(fields, model, request);
  fields.require_known();
  if (request.choices() > most_choices)
    throw ApiError(400, "n", fmt::format("{} texts are more than {}", request.choices(), most_choices));
  return request;
}

}  // namespace llmtrain::app
