// SPDX-License-Identifier: Apache-2.0
#include "parallel/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/recipe/pipeline_schedules.h"

namespace llmtrain {

namespace {

// In the order of the enum.
constexpr std::array<const char*, 11> operation_names = {
    "Forward",       "Backward",    "SendActivation",  "RecvActivation", "SendGradient", "RecvGradient",
    "GatherWeights", "FreeWeights", "ReduceGradients", "EvictGradients", "OptimizerStep"};

// A period during which a rank holds a stage's gathered weights, as indices into its list of passes.
struct WeightHold {
  std::int32_t stage = 0;
  std::size_t gather_before = 0;  // the gather is issued before this pass
  std::size_t free_after = 0;     // last use
};

constexpr std::size_t none = static_cast<std::size_t>(-1);

// A group of micro-batches in one direction, which needs its stage gathered from its first pass to its last.
struct Use {
  std::int32_t stage = 0;
  std::size_t first = 0;
  std::size_t last = 0;
};

std::vector<Use> list_uses(const std::vector<Instruction>& passes, const ScheduleShape& shape) {
  const std::int32_t group = shape.gather_group();
  std::vector<Use> uses;
  // 1F1B alternates directions, so a use continues across passes of the other direction.
  std::array<std::size_t, 2> current = {none, none};  // by direction
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (passes[i].operation == Operation::backward && !shape.has_backward(passes[i].stage)) continue;
    std::size_t& use = current[passes[i].operation == Operation::forward ? 0 : 1];
    // The same group of micro-batches: micro ÷ group identifies it.
    const bool continues = use != none && uses[use].stage == passes[i].stage &&
                           passes[uses[use].first].micro / group == passes[i].micro / group;
    if (!continues) {
      use = uses.size();
      uses.push_back({passes[i].stage, i, i});
    }
    uses[use].last = i;
  }
  return uses;
}

// When ZeRO-3 gathers and frees weights around the passes of a rank, with two buffers: a stage is gathered as soon as
// its buffer is free, while the rank still works on the stage in the other buffer. A group of micro-batches in one
// direction through a stage share a gather. Ordered by first use, which is also the order of gather_before. A stage
// that is still held for the other direction stays held; one whose last use has ended is freed before it is gathered
// again.
std::vector<WeightHold> hold_weights(const std::vector<Instruction>& passes, const ScheduleShape& shape) {
  std::vector<WeightHold> holds;
  std::array<std::size_t, 2> buffers = {none, none};  // the last hold in each of the two buffers
  const auto free_from = [&](std::size_t hold) { return hold == none ? 0 : holds[hold].free_after + 1; };
  // In order of first use, so that each gather starts as early as the buffers allow.
  for (const Use& use : list_uses(passes, shape)) {
    std::size_t same = none;  // the last hold of the stage
    for (const std::size_t hold : buffers)
      if (hold != none && holds[hold].stage == use.stage && free_from(hold) > free_from(same)) same = hold;
    // Still held when the use begins (the other direction): keep it instead of gathering a second copy.
    if (free_from(same) > use.first) {
      holds[same].free_after = std::max(holds[same].free_after, use.last);
      continue;
    }
    // The buffer that becomes free first allows the earliest prefetch; a stage's own last hold must have ended as well,
    // because the memory of its gathered weights exists once.
    std::size_t& buffer = free_from(buffers[0]) <= free_from(buffers[1]) ? buffers[0] : buffers[1];
    const std::size_t gather = std::max(free_from(buffer), free_from(same));
    buffer = holds.size();
    holds.push_back({use.stage, gather, use.last});
  }
  return holds;
}

// Writes the instructions of one rank: its passes, and the communication around them.
class RankWriter {
 public:
  RankWriter(const ScheduleShape& shape, std::int32_t rank)
      : shape_(shape), rank_(rank), passes_(pass_order(shape, rank)) {
    // Only ZeRO-3 gathers around passes.
    if (shape.sharding() == 3) holds_ = hold_weights(passes_, shape);
    frees_ = holds_;
    std::sort(frees_.begin(), frees_.end(),
              [](const WeightHold& a, const WeightHold& b) { return a.free_after < b.free_after; });
    // At most a receive before each pass and a send after it.
    const std::size_t instructions_a_pass = shape.pipeline == 1 ? 1 : 3;
    const std::size_t completions = shape.completes_stages() ? static_cast<std::size_t>(shape.loops) : 0;
    instructions_.reserve(passes_.size() * instructions_a_pass + 2 * holds_.size() + reductions() + completions +
                          updates() + 1);
  }

  RankSchedule write() {
    // Gathers that can be issued before the first pass.
    gather_before(0);
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      receive(passes_[i]);
      instructions_.push_back(passes_[i]);
      send(passes_[i]);
      free_after(i);
      // Gathers go before the reduction on the data stream: the next stage waits for its weights, while reduced
      // gradients are needed only by OptimizerStep.
      gather_before(i + 1);
      reduce_after(passes_[i]);
      if (completes_stage(passes_[i])) complete_after(passes_[i].stage);
    }
    if (incomplete_ >= 0) complete(incomplete_);
    // After all reductions of the list: the runner waits for them, not for the other ranks' passes.
    instructions_.push_back({.operation = Operation::optimizer_step});
    if (updates() > 0 && !shape_.updates_by_stage) gather_updates();
    return {std::move(instructions_)};
  }

 private:
  std::size_t reductions() const {
    if (!shape_.reduces) return 0;
    return static_cast<std::size_t>(shape_.loops) *
           static_cast<std::size_t>(shape_.micro_batches / shape_.reduction_group());
  }
  // Stages whose updated weights are gathered after the step: at ZeRO-1 and -2 each rank updates only its shard.
  std::size_t updates() const { return shape_.gathers_updates() ? static_cast<std::size_t>(shape_.loops) : 0; }

  std::int32_t next_rank() const { return (rank_ + 1) % shape_.pipeline; }
  std::int32_t previous_rank() const { return (rank_ + shape_.pipeline - 1) % shape_.pipeline; }
  bool has_previous_stage(const Instruction& pass) const { return shape_.pipeline > 1 && pass.stage > 0; }
  bool has_next_stage(const Instruction& pass) const { return shape_.pipeline > 1 && pass.stage + 1 < shape_.stages(); }

  void transfer(Operation operation, const Instruction& pass, std::int32_t peer) {
    instructions_.push_back({.operation = operation, .stage = pass.stage, .micro = pass.micro, .peer = peer});
  }

  void receive(const Instruction& pass) {
    if (pass.operation == Operation::forward) {
      if (has_previous_stage(pass)) transfer(Operation::receive_activation, pass, previous_rank());
    } else if (has_next_stage(pass) && shape_.sends_gradients(pass.stage + 1)) {
      transfer(Operation::receive_gradient, pass, next_rank());
    }
  }

  void send(const Instruction& pass) {
    if (pass.operation == Operation::forward) {
      if (has_next_stage(pass)) transfer(Operation::send_activation, pass, next_rank());
    } else if (has_previous_stage(pass) && shape_.sends_gradients(pass.stage)) {
      transfer(Operation::send_gradient, pass, previous_rank());
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
  void reduce_after(const Instruction& pass) {
    if (!shape_.reduces || pass.operation == Operation::forward) return;
    if ((pass.micro + 1) % shape_.reduction_group() == 0)
      instructions_.push_back({.operation = Operation::reduce_gradients, .stage = pass.stage});
  }

  bool completes_stage(const Instruction& pass) const {
    return shape_.completes(pass.stage) && pass.operation == Operation::backward &&
           pass.micro + 1 == shape_.micro_batches;
  }

  // Not at once what other ranks add to: that reduction runs beside the passes up to the next one.
  void complete_after(std::int32_t stage) {
    const std::int32_t reduced = shape_.reduces ? std::exchange(incomplete_, stage) : stage;
    if (reduced >= 0) complete(reduced);
  }

  void complete(std::int32_t stage) {
    if (shape_.evicts_gradients)
      return instructions_.push_back({.operation = Operation::evict_gradients, .stage = stage});
    instructions_.push_back({.operation = Operation::optimizer_step, .stage = stage});
    if (updates() > 0) instructions_.push_back({.operation = Operation::gather_weights, .stage = stage});
  }

  void gather_updates() {
    for (std::int32_t stage = rank_; stage < shape_.stages(); stage += shape_.pipeline)
      instructions_.push_back({.operation = Operation::gather_weights, .stage = stage});
  }

  const ScheduleShape& shape_;
  std::int32_t rank_;
  std::vector<Instruction> passes_;
  std::vector<WeightHold> holds_, frees_;  // by gather_before, by free_after
  std::size_t gathered_ = 0, freed_ = 0;
  std::int32_t incomplete_ = -1;  // the stage whose last reduction is in progress, −1: none
  std::vector<Instruction> instructions_;
};

}  // namespace

std::string to_text(const Instruction& instruction) {
  std::string text = operation_names[static_cast<std::size_t>(instruction.operation)];
  if (instruction.stage >= 0) text += " stage " + std::to_string(instruction.stage);
  if (instruction.micro >= 0) text += " micro " + std::to_string(instruction.micro);
  if (instruction.peer >= 0) text += " peer " + std::to_string(instruction.peer);
  return text;
}

std::string to_text(const RankSchedule& schedule) {
  std::string text;
  for (const Instruction& instruction : schedule.instructions) text += to_text(instruction) + '\n';
  return text;
}

Schedule make_schedule(const ScheduleShape& shape) {
  // The rules of recipes have checked this; a shape from elsewhere would give a schedule that cannot run.
  const bool runs = takes_loops(shape.kind, shape.pipeline, shape.loops) &&
                    shape.micro_batches % micro_batch_group(shape.kind, shape.pipeline, shape.loops) == 0 &&
                    !(shape.updates_by_stage && shape.evicts_gradients);
  if (!runs) throw Error(ExitCode::internal_error, "the requested schedule violates the rules of recipes");
  Schedule schedule{.shape = shape, .ranks = {}};
  schedule.ranks.reserve(static_cast<std::size_t>(shape.pipeline));
  for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) schedule.ranks.push_back(RankWriter(shape, rank).write());
  return schedule;
}

}  // namespace llmtrain
