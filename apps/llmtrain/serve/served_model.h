// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/llmtrain/inference/chat_prompts.h"
#include "core/data/growing_text.h"
#include "core/json/json_text.h"
#include "core/recipe/recipe.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain::app {

// What one request may ask for at most.
struct ServedLimits {
  std::int64_t context = 0;     // tokens of prompt and answer
  std::int64_t tokens = 0;      // of an answer
  std::int64_t embedded = 0;    // of a text that is embedded
  std::int64_t dimensions = 0;  // of an embedding
};

// What requests are read and answered with: the model's name, its tokenizer, its chat template and what ends its texts.
// For any number of threads.
class ServedModel {
 public:
  // Texts as `sample` reads and ends them. The recipe outlives this. Throws as open_tokenizer(), text_ends() and
  // ChatPrompts do.
  ServedModel(std::string name, const Recipe& recipe, const std::string& checkpoint);

  const std::string& name() const { return name_; }
  const ServedLimits& limits() const { return limits_; }
  // Tokens that it takes at once: of prompt and answer, or of an encoder's text.
  std::int64_t longest() const { return writes_texts_ ? limits_.context : limits_.embedded; }
  void set_limits(const ServedLimits& limits) { limits_ = limits; }

  // Whether it goes on with texts: an encoder embeds them alone.
  bool writes_texts() const { return writes_texts_; }
  // Whether tokens go to experts that routers choose.
  bool has_experts() const { return has_experts_; }
  // Whether it answers messages.
  bool has_chat_template() const { return chat_ != nullptr; }
  // Throws ApiError(404) for another name than the model's.
  void require_name(const std::optional<std::string>& name) const;
  // Throw ApiError(400).
  std::vector<std::int64_t> tokens_of_text(const std::string& prompt) const;
  std::vector<std::int64_t> tokens_of_chat(const Json& messages);
  // With all marks that its tokenizer puts around a text.
  std::vector<std::int64_t> tokens_of_embedded(const std::string& text) const;
  void add_end_of_answer(std::vector<std::string>& stop) const;

  // The text of an answer that has no tokens yet. The model outlives it.
  GrowingText begin_answer(std::vector<std::string> stop) const;
  // The bytes that a token stands for after others.
  std::string bytes_of(std::int64_t token) const;
  bool ends_texts(std::int64_t token) const;

 private:
  std::string name_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::int64_t> ends_;
  bool writes_texts_, has_experts_;
  ServedLimits limits_;
  std::mutex mutex_;                   // of the templates, which keep what they have made
  std::unique_ptr<ChatPrompts> chat_;  // null where the model was not fine-tuned
};

}  // namespace llmtrain::app
