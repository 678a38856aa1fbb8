// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/embeddings/embedding_answers.h"

#include <utility>

namespace llmtrain::app {

EmbeddingListener EmbeddingAnswers::listener() {
  return [self = shared_from_this()](std::vector<float> embedding) { return self->add(std::move(embedding)); };
}

bool EmbeddingAnswers::add(std::vector<float> embedding) {
  const std::lock_guard lock(mutex_);
  if (is_abandoned_) return false;
  embeddings_.push_back(std::move(embedding));
  if (embeddings_.size() == texts_) are_complete_.notify_one();
  return true;
}

bool EmbeddingAnswers::wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return are_complete_.wait_for(lock, time, [&] { return embeddings_.size() == texts_; });
}

void EmbeddingAnswers::abandon() {
  const std::lock_guard lock(mutex_);
  is_abandoned_ = true;
}

std::vector<std::vector<float>> EmbeddingAnswers::take() {
  const std::lock_guard lock(mutex_);
  return std::move(embeddings_);
}

}  // namespace llmtrain::app
