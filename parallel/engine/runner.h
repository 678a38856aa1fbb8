// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/model/micro_batch.h"
#include "core/recipe/recipe.h"
#include "parallel/engine/local_model.h"
#include "parallel/plan/schedule.h"

namespace llmtrain {

struct StepResult {
  double loss = 0;           // mean over the global batch's tokens
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  bool skipped = false;  // the gradient norm was not finite, and the weights are as before
};

// Executes a rank's schedule: one method per instruction, in the schedule's order, nothing else.
class Runner {
 public:
  // All arguments outlive the runner. The schedule is for as many micro-batches as every step() gets.
  Runner(LocalModel& model, const RankSchedule& schedule, const TrainingRecipe& training);

  // One training step on the global batch; `step` counts from 0.
  StepResult step(std::span<const MicroBatch> micros, std::int64_t step);

 private:
  void forward(const Instruction& instruction);
  void backward(const Instruction& instruction);
  void optimizer_step();

  // What passes from one stage to its neighbour on this rank: [stage][micro].
  using Mailbox = std::vector<std::vector<at::Tensor>>;

  LocalModel& model_;
  const RankSchedule& schedule_;
  const TrainingRecipe& training_;

  std::span<const MicroBatch> micros_;
  Mailbox activations_, gradients_;
  std::vector<double> losses_;  // sum of each micro-batch
  std::int64_t step_ = 0;
  StepResult result_;
};

}  // namespace llmtrain
