// SPDX-License-Identifier: Apache-2.0
#include "parallel/schedule/schedule.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/recipe/pipeline_schedules.h"
#include "parallel/schedule/pass_order.h"
#include "parallel/schedule/weight_holds.h"

namespace llmtrain {

namespace {

// Writes the instructions of one rank: its passes, and the communication around them.
class RankWriter {
 public:
  RankWriter(const ScheduleShape& shape, std::int32_t rank)
      : shape_(shape), rank_(rank), passes_(pass_order(shape, rank)) {
    // Only ZeRO-3 gathers around passes.
    if (shape.sharding() == 3) holds_ = hold_weights(passes_, shape.gather_group());
    frees_ = holds_;
    std::sort(frees_.begin(), frees_.end(),
              [](const WeightHold& a, const WeightHold& b) { return a.free_after < b.free_after; });
    // At most a receive before each pass and a send after it.
    const std::size_t instructions_a_pass = shape.pipeline == 1 ? 1 : 3;
    instructions_.reserve(passes_.size() * instructions_a_pass + 2 * holds_.size() + reductions() + updates() + 1);
  }

  RankSchedule write() {
    // Gathers that can be issued before the first pass.
    gather_before(0);
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      receive(passes_[i]);
      compute(passes_[i]);
      send(passes_[i]);
      free_after(i);
      // Gathers go before the reduction on the data stream: the next stage waits for its weights, while reduced
      // gradients are needed only by OptimizerStep.
      gather_before(i + 1);
      reduce_after(passes_[i]);
    }
    // After all reductions of the list: the runner waits for them, not for the other ranks' passes.
    instructions_.push_back({.operation = Operation::optimizer_step});
    if (updates() > 0) gather_updates();
    return {std::move(instructions_)};
  }

 private:
  std::size_t reductions() const {
    if (!shape_.reduces) return 0;
    return static_cast<std::size_t>(shape_.loops) *
           static_cast<std::size_t>(shape_.micro_batches / shape_.reduction_group());
  }
  // Stages whose updated weights are gathered after the step: at ZeRO-1 and -2 each rank updates only its shard.
  std::size_t updates() const {
    return shape_.sharding() == 1 || shape_.sharding() == 2 ? static_cast<std::size_t>(shape_.loops) : 0;
  }

  std::int32_t rank_behind() const { return (rank_ + 1) % shape_.pipeline; }
  std::int32_t rank_before() const { return (rank_ + shape_.pipeline - 1) % shape_.pipeline; }
  bool has_stage_before(const Pass& pass) const { return shape_.pipeline > 1 && pass.stage > 0; }
  bool has_stage_behind(const Pass& pass) const { return shape_.pipeline > 1 && pass.stage + 1 < shape_.stages(); }

  void transfer(Operation operation, const Pass& pass, std::int32_t peer) {
    instructions_.push_back({.operation = operation, .stage = pass.stage, .micro = pass.micro, .peer = peer});
  }

  void receive(const Pass& pass) {
    if (pass.direction == Direction::forward) {
      if (has_stage_before(pass)) transfer(Operation::receive_activation, pass, rank_before());
    } else if (has_stage_behind(pass)) {
      transfer(Operation::receive_gradient, pass, rank_behind());
    }
  }

  void compute(const Pass& pass) {
    const bool forward = pass.direction == Direction::forward;
    instructions_.push_back(
        {.operation = forward ? Operation::forward : Operation::backward, .stage = pass.stage, .micro = pass.micro});
  }

  void send(const Pass& pass) {
    if (pass.direction == Direction::forward) {
      if (has_stage_behind(pass)) transfer(Operation::send_activation, pass, rank_behind());
    } else if (has_stage_before(pass)) {
      transfer(Operation::send_gradient, pass, rank_before());
    }
  }

  void gather_before(std::size_t pass) {
    for (; gathered_ < holds_.size() && holds_[gathered_].gather_before == pass; ++gathered_)
      instructions_.push_back({.operation = Operation::gather_weights, .stage = holds_[gathered_].stage});
  }

  void free_after(std::size_t pass) {
    // Holds may end in another order than they begin: frees_ is sorted by their ends.
    for (; freed_ < frees_.size() && frees_[freed_].free_after == pass; ++freed_)
      instructions_.push_back({.operation = Operation::free_weights, .stage = frees_[freed_].stage});
  }

  // Backwards of a stage run in micro-batch order, so the last micro-batch of a group completes its gradients.
  void reduce_after(const Pass& pass) {
    if (!shape_.reduces || pass.direction == Direction::forward) return;
    if ((pass.micro + 1) % shape_.reduction_group() == 0)
      instructions_.push_back({.operation = Operation::reduce_gradients, .stage = pass.stage});
  }

  void gather_updates() {
    for (std::int32_t stage = rank_; stage < shape_.stages(); stage += shape_.pipeline)
      instructions_.push_back({.operation = Operation::gather_weights, .stage = stage});
  }

  const ScheduleShape& shape_;
  std::int32_t rank_;
  std::vector<Pass> passes_;
  std::vector<WeightHold> holds_, frees_;  // by gather_before, by free_after
  std::size_t gathered_ = 0, freed_ = 0;
  std::vector<Instruction> instructions_;
};

}  // namespace

Schedule make_schedule(const ScheduleShape& shape) {
  // The rules of recipes have checked this; a shape from elsewhere would give a schedule that cannot run.
  const bool runs = takes_loops(shape.kind, shape.pipeline, shape.loops) &&
                    shape.micro_batches % micro_batch_group(shape.kind, shape.pipeline, shape.loops) == 0;
  if (!runs) throw Error(ExitCode::internal_error, "the requested schedule violates the rules of recipes");
  Schedule schedule{.shape = shape, .ranks = {}};
  schedule.ranks.reserve(static_cast<std::size_t>(shape.pipeline));
  for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) schedule.ranks.push_back(RankWriter(shape, rank).write());
  return schedule;
}

}  // namespace llmtrain
