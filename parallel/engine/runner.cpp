// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/runner.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/optim/learning_rate.h"
#include "kernels/reduction.h"

namespace llmtrain {

Runner::Runner(LocalModel& model, const RankSchedule& schedule, const TrainingRecipe& training)
    : model_(model), schedule_(schedule), training_(training) {}

StepResult Runner::step(std::span<const MicroBatch> micros, std::int64_t step) {
  micros_ = micros;
  step_ = step;
  losses_.assign(micros.size(), 0);
  const std::vector<at::Tensor> empty(micros.size());
  activations_.assign(model_.stages().size() + 1, empty);
  gradients_.assign(model_.stages().size() + 1, empty);
  for (auto& stage : model_.stages()) stage.store->start_step();
  for (const Instruction& instruction : schedule_.instructions) {
    switch (instruction.operation) {
      case Operation::forward:
        forward(instruction);
        break;
      case Operation::backward:
        backward(instruction);
        break;
      case Operation::optimizer_step:
        optimizer_step();
        break;
      default:
        throw Error(ExitCode::internal_error, "the runner cannot execute \"" + to_text(instruction) + "\"");
    }
  }
  result_.loss = std::accumulate(losses_.begin(), losses_.end(), 0.0) * micros.front().loss_scale;
  return result_;
}

void Runner::forward(const Instruction& instruction) {
  const auto stage = static_cast<std::size_t>(instruction.stage);
  const auto micro = static_cast<std::size_t>(instruction.micro);
  at::Tensor output = model_.stages()[stage].stage->forward(std::move(activations_[stage][micro]), instruction.micro,
                                                            micros_[micro], Pass::training);
  if (stage + 1 == model_.stages().size()) {
    losses_[micro] = output.sum(at::kDouble).item<double>();
  } else {
    activations_[stage + 1][micro] = std::move(output);
  }
}

void Runner::backward(const Instruction& instruction) {
  const auto stage = static_cast<std::size_t>(instruction.stage);
  const auto micro = static_cast<std::size_t>(instruction.micro);
  at::Tensor gradient = model_.stages()[stage].stage->backward(std::move(gradients_[stage + 1][micro]),
                                                               instruction.micro, micros_[micro]);
  gradients_[stage][micro] = std::move(gradient);
}

void Runner::optimizer_step() {
  double squares = 0;
  for (auto& stage : model_.stages()) {
    stage.store->finish_gradients();
    squares += kernels::sum_of_squares(stage.store->gradients());
  }
  result_.gradient_norm = std::sqrt(squares);
  result_.learning_rate = learning_rate_at(training_.learning_rate, step_);
  result_.skipped = !std::isfinite(result_.gradient_norm);
  if (result_.skipped) return;
  const double coefficient = clipping_coefficient(result_.gradient_norm, training_.clip_norm);
  for (auto& stage : model_.stages()) {
    stage.optimizer->update({stage.store->master(), stage.store->gradients(), stage.store->compute_copy(),
                             result_.learning_rate, coefficient, step_ + 1});
  }
}

}  // namespace llmtrain
