// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "parallel/runtime/text_service.h"

namespace llmtrain::app {

// The embeddings of one request's texts, which the model's thread makes and the client's thread waits for. They last as
// long as either needs them, so that a client may leave while they are computed.
class EmbeddingAnswers : public std::enable_shared_from_this<EmbeddingAnswers> {
 public:
  explicit EmbeddingAnswers(std::size_t texts) : texts_(texts) {}

  EmbeddingListener listener();
  // Whether all are there; waits for so long.
  bool wait(std::chrono::milliseconds time);
  // Nobody waits any more: no further text is embedded.
  void abandon();
  // Once all are there.
  std::vector<std::vector<float>> take();

 private:
  bool add(std::vector<float> embedding);

  std::size_t texts_;
  std::mutex mutex_;
  std::condition_variable are_complete_;
  std::vector<std::vector<float>> embeddings_;
  bool is_abandoned_ = false;
};

}  // namespace llmtrain::app
