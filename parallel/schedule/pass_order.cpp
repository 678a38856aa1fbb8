// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "parallel/schedule/schedule.h"

namespace llmtrain {

namespace {

// Appends passes of one rank; a stage is identified by its loop on that rank.
class PassList {
 public:
  PassList(const ScheduleShape& shape, std::int32_t rank) : shape_(shape), rank_(rank) {
    // Schedules are made in the inner loop of planning.
    passes_.reserve(2 * static_cast<std::size_t>(shape.loops) * static_cast<std::size_t>(shape.micro_batches));
  }

  void add(Operation direction, std::int32_t loop, std::int32_t micro) {
    passes_.push_back({.operation = direction, .stage = loop * shape_.pipeline + rank_, .micro = micro});
  }

  // The index-th forward or backward of a depth-first schedule (Narayanan et al., arXiv 2104.04473, section 2.2.2):
  // groups of `pipeline` micro-batches go through all loops, ascending or descending, before the next group. A group of
  // that size returns to the first rank just when the rank has sent the last of the group on.
  void add_depth_first(Operation direction, std::int32_t index) {
    const std::int32_t group = shape_.pipeline * shape_.loops;
    const std::int32_t loop = index % group / shape_.pipeline;
    const std::int32_t micro = index / group * shape_.pipeline + index % shape_.pipeline;
    add(direction, direction == Operation::forward ? loop : shape_.loops - 1 - loop, micro);
  }

  std::vector<Instruction> take() { return std::move(passes_); }

 private:
  const ScheduleShape& shape_;
  std::int32_t rank_;
  std::vector<Instruction> passes_;
};

// `group` micro-batches at a time forward through all loops and backward in reverse. With all micro-batches as one
// group this is GPipe (arXiv 1811.06965), and with loops breadth-first (Lamy-Poirier, arXiv 2211.05953).
void add_group_by_group(PassList& list, const ScheduleShape& shape, std::int32_t group) {
  for (std::int32_t first = 0; first < shape.micro_batches; first += group) {
    for (std::int32_t loop = 0; loop < shape.loops; ++loop)
      for (std::int32_t micro = first; micro < first + group; ++micro) list.add(Operation::forward, loop, micro);
    for (std::int32_t loop = shape.loops - 1; loop >= 0; --loop)
      for (std::int32_t micro = first; micro < first + group; ++micro) list.add(Operation::backward, loop, micro);
  }
}

// 1F1B and its interleaved form (Narayanan et al., arXiv 2104.04473, section 2.2): after the warm-up one forward and
// one backward in turn, so that a rank never has more passes in flight than the warm-up has forwards, plus one.
void add_one_forward_one_backward(PassList& list, const ScheduleShape& shape, std::int32_t rank) {
  const std::int32_t passes = shape.micro_batches * shape.loops;
  // 1F1B fills the later ranks and then waits for the first backward. Interleaved keeps running forwards while the
  // first micro-batch travels from the last loop to the last rank and back: two passes for each later rank, after all
  // loops but the last.
  const std::int32_t later_ranks = shape.pipeline - rank - 1;
  const std::int32_t wanted = shape.loops == 1 ? later_ranks : 2 * later_ranks + (shape.loops - 1) * shape.pipeline;
  const std::int32_t warm_up = std::min(wanted, passes);
  for (std::int32_t index = 0; index < warm_up; ++index) list.add_depth_first(Operation::forward, index);
  for (std::int32_t index = 0; index < passes; ++index) {
    if (warm_up + index < passes) list.add_depth_first(Operation::forward, warm_up + index);
    // Also after the last forward: the cool-down that drains the pipeline.
    list.add_depth_first(Operation::backward, index);
  }
}

}  // namespace

std::vector<Instruction> pass_order(const ScheduleShape& shape, std::int32_t rank) {
  PassList list(shape, rank);
  switch (shape.kind) {
    case PipelineSchedule::breadth_first:
    case PipelineSchedule::gpipe:
      add_group_by_group(list, shape, shape.micro_batches);
      break;
    case PipelineSchedule::one_forward_one_backward:
    case PipelineSchedule::interleaved:
      // One rank has no bubble to fill: one micro-batch at a time keeps the fewest activations.
      if (shape.pipeline == 1) {
        add_group_by_group(list, shape, 1);
      } else {
        add_one_forward_one_backward(list, shape, rank);
      }
      break;
  }
  return list.take();
}

std::int32_t ScheduleShape::gather_group() const {
  switch (kind) {
    case PipelineSchedule::breadth_first:
    case PipelineSchedule::gpipe:
      return micro_batches;
    case PipelineSchedule::one_forward_one_backward:
      return 1;
    case PipelineSchedule::interleaved:
      return loops > 1 ? pipeline : 1;
  }
  return 1;
}

double passes_in_flight(const ScheduleShape& shape, std::int32_t rank) {
  const double all = static_cast<double>(shape.micro_batches) * shape.loops;
  const double later_ranks = shape.pipeline - 1 - rank;
  switch (shape.kind) {
    case PipelineSchedule::breadth_first:
    case PipelineSchedule::gpipe:
      return all;
    case PipelineSchedule::one_forward_one_backward:
      return std::min(all, later_ranks + 1);
    case PipelineSchedule::interleaved:
      if (shape.loops == 1) return std::min(all, later_ranks + 1);
      if (shape.pipeline == 1) return shape.loops;
      // The warm-up of add_one_forward_one_backward(), and the forward before the first backward.
      return std::min(all, 2 * later_ranks + (shape.loops - 1.0) * shape.pipeline + 1);
  }
  return all;
}

}  // namespace llmtrain
