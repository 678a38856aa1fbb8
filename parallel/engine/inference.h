// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/data/dataset.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

struct Evaluation {
  double loss = 0;          // mean over the tokens
  std::int64_t tokens = 0;  // number of tokens evaluated
};

// The model's loss on the first `samples` samples of the data set (0: all of them), in micro-batches of the recipe's
// size that the ranks share. Collective: all ranks of the model call it together and get the same result; blocks. Keeps
// no activations and applies no dropout.
Evaluation evaluate(LocalModel& model, const Dataset& dataset, std::int64_t samples);

// Logits [T, vocab_size] in fp32, on the CPU, of one sequence of T tokens (int64, on the CPU), T ≤ max_sequence_length.
// The rank must hold whole weights: not at ZeRO-3. Tensor ranks call it together and get the same result.
at::Tensor logits_of(LocalModel& model, const at::Tensor& tokens);

struct GenerateOptions {
  std::int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the most likely token
  std::int64_t top_k = 0;    // 0: all tokens are candidates
  std::int64_t seed = 1234;
  std::optional<std::chrono::milliseconds> time_limit{};  // stops generating when it is exceeded
};

// Continues `prompt` (at least one token) token by token and returns prompt and continuation. The model sees at most
// the last max_sequence_length tokens. The same model, prompt and options give the same text, unless the time limit
// ends it.
std::vector<std::int64_t> generate(LocalModel& model, std::vector<std::int64_t> prompt, const GenerateOptions& options);

}  // namespace llmtrain
