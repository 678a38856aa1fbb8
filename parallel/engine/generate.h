// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/engine/local_model.h"

namespace llmtrain {

struct GenerateOptions {
  std::int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the most likely token
  std::int64_t top_k = 0;    // 0: all tokens are candidates
  std::int64_t seed = 1234;
  std::optional<std::chrono::milliseconds> time_limit;  // stops generating when it is exceeded
};

// Continues `prompt` (at least one token) token by token and returns prompt and continuation. The model sees at most
// the last max_sequence_length tokens. The same model, prompt and options give the same text, unless the time limit
// ends it.
std::vector<std::int64_t> generate(LocalModel& model, std::vector<std::int64_t> prompt, const GenerateOptions& options);

}  // namespace llmtrain
