// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/growing_answers.h"

#include <iterator>
#include <utility>

namespace llmtrain::app {

GrowingAnswers::GrowingAnswers(const ServedModel& model, const ApiRequest& request) : most_(request.text.tokens) {
  for (std::int64_t i = 0; i < request.choices(); ++i) texts_.push_back(model.begin_answer(request.stop));
}

std::vector<ServedListener> GrowingAnswers::listeners() {
  std::vector<ServedListener> listeners;
  for (std::size_t choice = 0; choice < texts_.size(); ++choice)
    listeners.emplace_back(
        [self = shared_from_this(), choice](const ServedToken& token) { return self->add(choice, token); });
  return listeners;
}

bool GrowingAnswers::add(std::size_t choice, const ServedToken& token) {
  GrowingText& text = texts_[choice];
  const bool goes_on = text.add(token.id) && std::ssize(text.tokens()) < most_;
  if (!goes_on) text.end();
  AnswerPiece piece{.choice = choice, .token = token, .text = text.take(), .finish = {}};
  if (!goes_on) piece.finish = text.state() == GrowingText::State::ended ? "length" : "stop";
  const std::lock_guard lock(mutex_);
  if (is_abandoned_) return false;
  pieces_.push_back(std::move(piece));
  has_pieces_.notify_one();
  return goes_on;
}

std::optional<AnswerPiece> GrowingAnswers::take(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  if (!has_pieces_.wait_for(lock, wait, [&] { return !pieces_.empty(); })) return std::nullopt;
  AnswerPiece piece = std::move(pieces_.front());
  pieces_.pop_front();
  return piece;
}

void GrowingAnswers::abandon() {
  const std::lock_guard lock(mutex_);
  is_abandoned_ = true;
  pieces_.clear();
}

}  // namespace llmtrain::app
