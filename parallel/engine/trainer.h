// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "core/recipe/recipe.h"

namespace llmtrain {

struct StepResult {
  double loss = 0;           // mean over the global batch's tokens
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
};

// A model, its optimizer and its data: everything that one training step needs, nothing of what a run leaves on the
// disk. Blocking. Throws Error for what the recipe's files cannot be.
class Trainer {
 public:
  explicit Trainer(const Recipe& recipe);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  std::int64_t steps_done() const;
  StepResult step();

  // Mean loss over the validation data (recipe.training.evaluate_batches).
  double evaluate();

  // Logits [T, vocab_size] in fp32 of one sequence of at most max_sequence_length tokens (int64, on the CPU).
  at::Tensor logits(const at::Tensor& tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmtrain
