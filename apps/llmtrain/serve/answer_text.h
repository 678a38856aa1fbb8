// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/llmtrain/serve/growing_answers.h"
#include "apps/llmtrain/serve/served_model.h"
#include "apps/llmtrain/serve/text_request.h"
#include "core/json/json_text.h"

namespace llmtrain::app {

// As JSON on one line; bytes that are no UTF-8 become U+FFFD, as a model may write any.
std::string json_line(const Json& value);

// The JSON of the answers to one request, in the forms of OpenAI's interface: all at once, or event by event.
class AnswerText {
 public:
  // Both outlive this.
  AnswerText(const ServedModel& model, const ApiRequest& request);

  // What is said before a choice's first piece; null where the form has nothing.
  Json opening(std::size_t choice) const;
  // Notes a piece, and returns what is said of it; null where there is nothing to show yet.
  Json event(const AnswerPiece& piece);
  // How many tokens there were, as the last event.
  Json usage_event() const;
  // The whole answer.
  Json whole() const;

  std::int64_t generated_tokens() const { return generated_; }

 private:
  struct Choice {
    std::string text;  // all of it
    std::string finish;
    std::vector<ServedToken> tokens;  // with their log-probabilities, where asked for
    std::size_t shown = 0;            // tokens that events have shown
    std::int64_t offset = 0;          // of the next token's text in all texts of tokens
  };

  Json frame(const char* object) const;
  Json usage() const;
  // Those of a choice, of its tokens from `shown` on, which it moves.
  Json log_probabilities(Choice& choice) const;
  Json chat_log_probabilities(Choice& choice) const;
  Json likely_token(std::int64_t id, double log_probability) const;
  Json choice_json(std::size_t index, const std::string& text, const char* chat_key, Choice& choice) const;

  const ServedModel& model_;
  const ApiRequest& request_;
  std::string id_;
  std::int64_t created_;
  std::vector<Choice> choices_;
  std::int64_t generated_ = 0;
};

}  // namespace llmtrain::app
