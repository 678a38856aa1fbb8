// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/served_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "apps/llmtrain/serve/api_error.h"
#include "core/base/error.h"
#include "core/data/conversations/text_ends.h"
#include "core/tokenizer/encode_pair.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain::app {
namespace {

// A content in parts, as newer clients send it, as one text.
Json joined_parts(const Json& content, const std::string& field) {
  std::string text;
  for (const Json& part : content) {
    const bool is_text =
        part.is_object() && part.value("type", Json()) == "text" && part.contains("text") && part["text"].is_string();
    if (!is_text) throw ApiError(400, field, "may only have parts of the type text");
    text += part["text"].get<std::string>();
  }
  return text;
}

Json checked_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty())
    throw ApiError(400, "messages", "must be a list of at least one message, each with \"role\" and \"content\"");
  Json result = messages;
  for (std::size_t i = 0; i < result.size(); ++i) {
    Json& message = result[i];
    const std::string field = fmt::format("messages[{}]", i);
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      throw ApiError(400, field, "must be an object with a text \"role\"");
    if (message.contains("content") && message["content"].is_array())
      message["content"] = joined_parts(message["content"], field + ".content");
    if (!message.contains("content") || !message["content"].is_string())
      throw ApiError(400, field + ".content", "must be a text, or a list of parts of the type text");
  }
  return result;
}

}  // namespace

ServedModel::ServedModel(std::string name, const Recipe& recipe, const std::string& checkpoint)
    : name_(std::move(name)),
      tokenizer_(open_tokenizer(recipe.data.tokenizer, recipe.model.vocab_size)),
      ends_(text_ends(recipe, checkpoint, *tokenizer_)),
      writes_texts_(!is_encoder(recipe.model.architecture)),
      has_experts_(recipe.model.moe.has_value()) {
  if (recipe.data.fine_tuning && writes_texts_) chat_ = std::make_unique<ChatPrompts>(recipe, checkpoint);
}

void ServedModel::require_name(const std::optional<std::string>& name) const {
  if (name && *name != name_)
    throw ApiError(404, "model", fmt::format("{} is not served; \"{}\" is", shown_text(*name), name_));
}

std::vector<std::int64_t> ServedModel::tokens_of_text(const std::string& prompt) const {
  try {
    // A model needs at least one token to begin with.
    return encode_prompt(*tokenizer_, prompt.empty() ? "\n" : prompt);
  } catch (const Error& error) {
    throw ApiError(400, "prompt", error.what());
  }
}

std::vector<std::int64_t> ServedModel::tokens_of_chat(const Json& messages) {
  if (!chat_)
    throw ApiError(400, "messages",
                   "this model has no chat template (data.fine_tuning); ask /v1/completions for what follows a prompt");
  Json checked = checked_messages(messages);
  std::vector<TokenId> ids;
  try {
    std::string text;
    {
      const std::lock_guard lock(mutex_);
      text = chat_->text(std::move(checked));
    }
    tokenizer_->make_encoder()->encode(text, ids);
  } catch (const Error& error) {
    throw ApiError(400, "messages", error.what());
  }
  if (ids.empty()) throw ApiError(400, "messages", "the chat template writes no token before an answer");
  return {ids.begin(), ids.end()};
}

std::vector<std::int64_t> ServedModel::tokens_of_embedded(const std::string& text) const {
  if (text.empty()) throw ApiError(400, "input", "is an empty text");
  try {
    // Some tokenizers have a mark before texts and no template.
    if (tokenizer_->templates().single.size() == 1) return encode_prompt(*tokenizer_, text);
    const std::vector<TokenId> ids = encode_pair(*tokenizer_, *tokenizer_->make_encoder(), text, std::nullopt).ids;
    return {ids.begin(), ids.end()};
  } catch (const Error& error) {
    throw ApiError(400, "input", error.what());
  }
}

void ServedModel::add_end_of_answer(std::vector<std::string>& stop) const {
  if (chat_) chat_->add_end_of_answer(stop);
}

GrowingText ServedModel::begin_answer(std::vector<std::string> stop) const {
  const auto decode = [this](std::span<const std::int64_t> tokens) { return tokenizer_->decode_continuation(tokens); };
  return {decode, TextStops{std::move(stop), ends_}};
}

std::string ServedModel::bytes_of(std::int64_t token) const {
  return tokenizer_->decode_continuation(std::array{token});
}

bool ServedModel::ends_texts(std::int64_t token) const { return std::ranges::find(ends_, token) != ends_.end(); }

}  // namespace llmtrain::app
