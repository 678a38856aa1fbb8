// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/runner.h"

#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/optim/learning_rate.h"
#include "parallel/plan/step_scalars.h"

namespace llmtrain {
namespace {

using FreeAfter = LocalModel::FreeAfter;

std::size_t stage_of(const Instruction& instruction) { return static_cast<std::size_t>(instruction.stage); }
std::size_t micro_of(const Instruction& instruction) { return static_cast<std::size_t>(instruction.micro); }

}  // namespace

Runner::Runner(LocalModel& model, const RankSchedule& schedule, const Recipe& recipe)
    : model_(model), schedule_(schedule), recipe_(recipe) {}

StepResult Runner::step(std::span<const MicroBatch> micros, std::int64_t step, StopRequest stop) {
  micros_ = micros;
  step_ = step;
  stop_ = stop;
  losses_.assign(micros.size(), 0);
  const std::vector<at::Tensor> empty(micros.size());
  activations_.assign(model_.stages().size() + 1, empty);
  gradients_.assign(model_.stages().size() + 1, empty);
  last_pass_.assign(model_.stages().size(), FreeAfter::forward);
  for (auto& stage : model_.stages()) stage.parameters->start_step();
  for (const Instruction& instruction : schedule_.instructions) {
    if (observer_) observer_(instruction);
    execute(instruction);
  }
  finish_step();
  return result_;
}

void Runner::execute(const Instruction& instruction) {
  switch (instruction.operation) {
    case Operation::forward:
      return forward(instruction);
    case Operation::backward:
      return backward(instruction);
    case Operation::gather_weights:
      return gather_weights(instruction);
    case Operation::free_weights:
      return free_weights(instruction);
    case Operation::reduce_gradients:
      return reduce_gradients(instruction);
    case Operation::optimizer_step:
      return optimizer_step();
    default:
      throw Error(ExitCode::internal_error, "the runner cannot execute \"" + to_text(instruction) + "\"");
  }
}

void Runner::forward(const Instruction& instruction) {
  const std::size_t stage = stage_of(instruction), micro = micro_of(instruction);
  parameters(stage).finish_gather();
  at::Tensor output = model_.stages()[stage].stage->forward(std::move(activations_[stage][micro]), instruction.micro,
                                                            micros_[micro], Pass::training);
  last_pass_[stage] = FreeAfter::forward;
  if (stage + 1 == model_.stages().size()) {
    losses_[micro] = output.sum(at::kDouble).item<double>();
  } else {
    activations_[stage + 1][micro] = std::move(output);
  }
}

void Runner::backward(const Instruction& instruction) {
  const std::size_t stage = stage_of(instruction), micro = micro_of(instruction);
  parameters(stage).finish_gather();
  at::Tensor gradient = model_.stages()[stage].stage->backward(std::move(gradients_[stage + 1][micro]),
                                                               instruction.micro, micros_[micro]);
  last_pass_[stage] = FreeAfter::backward;
  gradients_[stage][micro] = std::move(gradient);
}

void Runner::gather_weights(const Instruction& instruction) {
  const std::size_t stage = stage_of(instruction);
  model_.gather(stage);
  if (!recipe_.parallel.overlap) parameters(stage).finish_gather();
}

void Runner::free_weights(const Instruction& instruction) {
  const std::size_t stage = stage_of(instruction);
  model_.free(stage, last_pass_[stage]);
}

void Runner::reduce_gradients(const Instruction& instruction) {
  const std::size_t stage = stage_of(instruction);
  // One at a time: whole gradients of more stages would have to stay.
  if (reducing_) parameters(*reducing_).finish_reduction();
  parameters(stage).reduce();
  reducing_ = stage;
  if (!recipe_.parallel.overlap) parameters(stage).finish_reduction();
}

void Runner::optimizer_step() {
  double squares = 0;
  for (auto& stage : model_.stages()) {
    stage.parameters->collect();
    squares += stage.parameters->sum_of_squares();
  }
  reducing_.reset();
  combine_ranks(squares);
  result_.learning_rate = learning_rate_at(recipe_.training.learning_rate, step_);
  result_.skipped = !std::isfinite(result_.gradient_norm);
  if (result_.skipped) return;
  const double coefficient = clipping_coefficient(result_.gradient_norm, recipe_.training.clip_norm);
  for (auto& stage : model_.stages()) stage.parameters->update(result_.learning_rate, coefficient, step_ + 1);
}

// Loss and norm are of all ranks; of those with the same shard one counts.
void Runner::combine_ranks(double squares) {
  const DataParallel& ranks = model_.ranks();
  const double loss = std::accumulate(losses_.begin(), losses_.end(), 0.0);
  const std::array<double, step_scalars> mine{loss, ranks.replica() == 0 ? squares : 0,
                                              stop_ == StopRequest::stop ? 1.0 : 0.0};
  const std::vector<double> all = ranks.exchange(mine);
  std::array<double, step_scalars> sums{};
  for (std::size_t i = 0; i < all.size(); ++i) sums[i % sums.size()] += all[i];
  result_.loss = sums[0] * micros_.front().loss_scale;
  result_.gradient_norm = std::sqrt(sums[1]);
  result_.stop_requested = sums[2] > 0;
}

// What the schedule gathered after the update is there for whatever comes next.
void Runner::finish_step() {
  for (auto& stage : model_.stages()) stage.parameters->finish_gather();
}

}  // namespace llmtrain
