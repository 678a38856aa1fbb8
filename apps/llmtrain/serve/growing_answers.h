// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/serve/served_model.h"
#include "apps/llmtrain/serve/text_request.h"
#include "parallel/runtime/text_service.h"

namespace llmtrain::app {

// More of one of a request's texts.
struct AnswerPiece {
  std::size_t choice = 0;
  ServedToken token;
  std::string text;                   // whole characters that certainly belong to the answer
  std::optional<std::string> finish;  // with the last piece: "stop" or "length"
};

// The texts of one request, which the model's thread makes and the client's thread takes. They last as long as either
// needs them, so that a client may leave while its text grows.
class GrowingAnswers : public std::enable_shared_from_this<GrowingAnswers> {
 public:
  // The model outlives this.
  GrowingAnswers(const ServedModel& model, const ApiRequest& request);

  std::size_t choices() const { return texts_.size(); }
  // By choice.
  std::vector<ServedListener> listeners();
  // The next piece; none where there is none for so long.
  std::optional<AnswerPiece> take(std::chrono::milliseconds wait);
  // Nobody takes more: texts end with their next token.
  void abandon();

 private:
  bool add(std::size_t choice, const ServedToken& token);

  std::int64_t most_;
  std::vector<GrowingText> texts_;  // of the model's thread
  std::mutex mutex_;
  std::condition_variable has_pieces_;
  std::deque<AnswerPiece> pieces_;
  bool is_abandoned_ = false;
};

}  // namespace llmtrain::app
