// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/search/layout_estimates.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "parallel/schedule/schedule.h"

namespace llmtrain {
namespace {

// What a pipeline rank does in a step, in seconds of its own.
struct RankWork {
  double forward = 0, backward = 0;  // of one micro-batch in all of its stages
  double gather = 0, reduce = 0;     // of all of its stages once
  WireSeconds pass_wires, gather_wires, reduce_wires;
};

RankWork work_of(const ScheduleShape& shape, const StepCosts& costs, std::size_t rank) {
  RankWork work;
  for (std::size_t stage = rank; stage < costs.stages.size(); stage += static_cast<std::size_t>(shape.pipeline)) {
    const StageCost& cost = costs.stages[stage];
    work.forward += cost.forward.seconds;
    work.backward += cost.backward.seconds;
    work.pass_wires += cost.forward.wires;
    work.pass_wires += cost.backward.wires;
    work.gather += cost.gather_seconds;
    work.reduce += cost.reduce_seconds;
    work.gather_wires += cost.gather_wires;
    work.reduce_wires += cost.reduce_wires;
  }
  return work;
}

class RankEstimate {
 public:
  RankEstimate(const ScheduleShape& shape, const StepCosts& costs, std::size_t rank)
      : shape_(shape),
        costs_(costs),
        first_(costs.stages[rank]),
        work_(work_of(shape, costs, rank)),
        counts_(data_counts(shape)),
        gather_(beside_passes(work_.gather_wires, work_.gather)),
        reduction_(beside_passes(work_.reduce_wires, work_.reduce)) {}

  // Both passes of one micro-batch, on all of the rank's stages.
  double pass() const { return work_.forward + work_.backward; }

  // By how much data-parallel traffic makes the rank's passes longer.
  double longer() const {
    const double gathers = counts_.gathers_forward * work_.gather;
    const double backward = counts_.gathers_backward * work_.gather + counts_.reductions * work_.reduce;
    if (!costs_.overlap) return gathers + backward;
    const double micros = shape_.micro_batches;
    // Forwards and backwards of one rank alone, or of all micro-batches, hide their own traffic only.
    if (shape_.gather_group() == shape_.micro_batches || shape_.pipeline == 1)
      return longer(micros * work_.forward, gathers, first_gather()) +
             longer(micros * work_.backward, backward, last_reduction());
    return longer(micros * pass(), gathers + backward, first_gather() + last_reduction());
  }

 private:
  Beside beside_passes(const WireSeconds& wires, double seconds) const {
    return beside(contention(wire_shares(work_.pass_wires, pass()), wire_shares(wires, seconds)),
                  costs_.compute_slowdown);
  }

  // By how much passes get longer if so much traffic runs beside them, of which at least so much is not hidden.
  double longer(double passes, double traffic, double shown) const {
    if (traffic <= 0) return 0;
    const double gathers = (counts_.gathers_forward + counts_.gathers_backward) * work_.gather;
    const double gathered = gathers / (gathers + counts_.reductions * work_.reduce);
    const double took = std::lerp(reduction_.took, gather_.took, gathered);
    const double progress = std::lerp(reduction_.progress, gather_.progress, gathered);
    const double exposed = std::clamp(traffic - passes / progress, std::min(shown, traffic), traffic);
    return exposed + (took - progress) * (traffic - exposed);
  }

  // What is left of the last reduction and of the first gather beside a backward and a forward, and of those of all of
  // a rank's stages beside the passes of one group of micro-batches.
  double last_reduction() const {
    if (!shape_.reduces) return 0;
    return std::max({first_.reduce_seconds / first_.buckets,
                     first_.reduce_seconds - first_.backward.seconds / reduction_.progress,
                     work_.reduce - shape_.gather_group() * work_.backward / reduction_.progress});
  }
  double first_gather() const {
    if (shape_.sharding() == 0) return 0;
    if (shape_.sharding() == 3) return first_.gather_seconds;
    return std::max({first_.gather_seconds / first_.buckets,
                     first_.gather_seconds - first_.forward.seconds / gather_.progress,
                     work_.gather - shape_.gather_group() * work_.forward / gather_.progress});
  }

  const ScheduleShape& shape_;
  const StepCosts& costs_;
  const StageCost& first_;
  const RankWork work_;
  const DataCounts counts_;
  const Beside gather_, reduction_;  // a rank's, on average
};

// What passes wait for tensors of other stages; `model`: of one micro-batch, forward and backward through all of them.
double transfer_seconds(const ScheduleShape& shape, const StepCosts& costs, double model) {
  if (shape.pipeline == 1) return 0;
  // Once around all ranks, on average over the loops.
  const double ranks = shape.pipeline,
               around =
                   std::accumulate(costs.transfer_seconds.begin(), costs.transfer_seconds.end(), 0.0) / shape.loops;
  // A rank sends and receives at the same time.
  if (costs.blocking_transfers) return static_cast<double>(shape.micro_batches) * shape.loops * around / ranks;
  // From one loop to the next a micro-batch visits all ranks, while those that a schedule runs before the next loop
  // keep the rank busy.
  const double group = shape.kind == PipelineSchedule::interleaved ? ranks : shape.micro_batches;
  const double busy = std::max(0.0, group - ranks) * model / (2 * ranks * shape.loops);
  // Forward and backward, and in the last loop not back to the first rank.
  return 2 * ((shape.loops - 1) * std::max(0.0, around - busy) + around - costs.transfer_seconds.back());
}

double rank_bytes(const Partition& partition, const StepMemory& memory, std::int32_t rank) {
  using Event = MemoryEvent;
  const ScheduleShape& shape = partition.shape;
  const std::vector<std::int64_t> alive = alive_passes(shape, rank);
  const auto stage_of = [&](std::int64_t loop) -> const StageMemory& {
    return memory.stages[static_cast<std::size_t>(loop * shape.pipeline + rank)];
  };
  double resident = memory.rank.total(), saved = 0, gathered = 0;
  for (std::int32_t loop = 0; loop < shape.loops; ++loop) {
    const StageMemory& stage = stage_of(loop);
    resident += stage.resident.total();
    saved += stage.held(Event::forward_starts, Event::backward_ends) *
             static_cast<double>(alive[static_cast<std::size_t>(loop)]);
    // The stage of the first backward, and the one before it, which is gathered ahead.
    if (loop + 2 >= shape.loops) gathered += stage.held(Event::weights_are_gathered, Event::weights_are_freed);
  }
  const StageMemory& last = stage_of(shape.loops - 1);
  return resident + saved + gathered + last.held(Event::gradients_begin, Event::gradients_are_reduced) +
         last.held(Event::backward_starts, Event::backward_ends);
}

}  // namespace

DataCounts data_counts(const ScheduleShape& shape) {
  const double micros = shape.micro_batches;
  DataCounts counts;
  // ZeRO-3 gathers a stage for the forwards and again for the backwards of each group of micro-batches; ZeRO-1 and -2
  // gather once, for the next step.
  if (shape.sharding() == 3) {
    counts.gathers_forward = micros / shape.gather_group();
    counts.gathers_backward =
        counts.gathers_forward * static_cast<double>(shape.stages() - shape.frozen_stages) / shape.stages();
  } else if (shape.sharding() > 0) {
    counts.gathers_forward = 1;
  }
  if (shape.reduces) counts.reductions = micros / shape.reduction_group();
  return counts;
}

double least_window(std::int64_t pipeline, std::int64_t loops, std::int64_t micros, double pass_seconds) {
  // Fewer micro-batches than ranks come back to the first rank before it is out of work.
  const auto rounds = static_cast<double>(loops * std::max(micros, pipeline));
  const auto bubble = static_cast<double>(std::min(micros, pipeline) - 1);
  return pass_seconds / static_cast<double>(pipeline * loops) * (rounds + bubble);
}

double estimate_seconds(const ScheduleShape& shape, const StepCosts& costs) {
  std::vector<RankEstimate> ranks;
  double model = 0;  // a micro-batch's passes through all stages
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(shape.pipeline); ++rank)
    model += ranks.emplace_back(shape, costs, rank).pass();
  // The window of equal stages, and what the busiest rank has more of. Of all passes but the first: each micro-batch
  // waits for it, but the first one's way through all ranks is as long as ever.
  const double average = model / shape.pipeline, passes = shape.micro_batches - 1.0 / shape.loops;
  double longest = 0;
  for (const RankEstimate& rank : ranks) longest = std::max(longest, passes * (rank.pass() - average) + rank.longer());
  return least_window(shape.pipeline, shape.loops, shape.micro_batches, model) + longest +
         transfer_seconds(shape, costs, model) + *std::ranges::max_element(costs.optimizer_seconds) +
         costs.step_overhead_seconds;
}

std::vector<std::int64_t> alive_passes(const ScheduleShape& shape, std::int32_t rank) {
  std::vector<std::int64_t> alive(static_cast<std::size_t>(shape.loops));
  // On one rank a micro-batch passes all stages before its first backward.
  if (shape.pipeline == 1) {
    const bool is_one =
        shape.kind == PipelineSchedule::one_forward_one_backward || shape.kind == PipelineSchedule::interleaved;
    std::ranges::fill(alive, is_one ? 1 : shape.micro_batches);
    return alive;
  }
  // Groups of micro-batches go through all loops, one group after another.
  const auto in_flight = static_cast<std::int64_t>(passes_in_flight(shape, rank));
  const bool is_one_group = shape.kind == PipelineSchedule::breadth_first || shape.kind == PipelineSchedule::gpipe;
  const std::int64_t group = is_one_group ? shape.micro_batches : shape.pipeline;
  const std::int64_t round = group * shape.loops, rest = in_flight % round;
  for (std::int64_t loop = 0; loop < shape.loops; ++loop)
    alive[static_cast<std::size_t>(loop)] =
        in_flight / round * group + std::clamp<std::int64_t>(rest - loop * group, 0, group);
  return alive;
}

double estimate_bytes(const Partition& partition, const StepMemory& memory) {
  double largest = 0;
  for (std::int32_t rank = 0; rank < partition.shape.pipeline; ++rank)
    largest = std::max(largest, rank_bytes(partition, memory, rank));
  return largest;
}

}  // namespace llmtrain
