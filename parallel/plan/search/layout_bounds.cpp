// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/search/layout_bounds.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/graph/operators/operators.h"
#include "core/graph/values.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/memory/memory_model.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/search/layout_estimates.h"

namespace llmtrain {

LayoutBounds::LayoutBounds(const LayoutSpace& space, const ClusterProfile& profile, std::int64_t devices_per_node,
                           std::shared_ptr<const Graph> graph)
    : space_(space), profile_(profile), devices_per_node_(devices_per_node), graph_(std::move(graph)) {}

// In as few stages as there can be: bounds are of any.
Partition LayoutBounds::partition(const DegreeChoice& degrees, const ShardingChoice& sharding,
                                  const PassChoice& passes) const {
  const bool has_empty_stages = degrees.pipeline > space_.units();
  const StageChoice stages{.balance = has_empty_stages ? BalanceKind::blocks : BalanceKind::layers};
  return partition_for(space_.recipe({degrees, sharding, passes, stages}), profile_, devices_per_node_, graph_);
}

std::optional<LayoutBounds::StatePrice> LayoutBounds::state_price(const DegreeChoice& degrees,
                                                                  const ShardingChoice& sharding,
                                                                  Fp8Level fp8_level) const {
  try {
    const Partition states = partition(degrees, sharding, {.fp8_level = fp8_level});
    const auto ranks = static_cast<double>(degrees.pipeline);
    StatePrice price;
    const PricedLayout priced(states, profile_);
    const StepMemory memory = make_pass_memory(priced);
    for (const StageMemory& stage : memory.stages) {
      price.bytes += stage.resident.total() / ranks;
      price.gathered_bytes += stage.held(MemoryEvent::weights_are_gathered, MemoryEvent::weights_are_freed) / ranks;
      price.unreduced_bytes += stage.held(MemoryEvent::gradients_begin, MemoryEvent::gradients_are_reduced) / ranks;
    }
    price.bytes += memory.rank.total();
    const StepCosts costs = make_step_costs(priced);
    for (const StageCost& stage : costs.stages) {
      price.gather_seconds += stage.gather_seconds / ranks;
      price.reduce_seconds += stage.reduce_seconds / ranks;
    }
    for (const double seconds : costs.optimizer_seconds) price.optimizer_seconds += seconds / ranks;
    return price;
  } catch (const Error&) {
    return std::nullopt;
  }
}

LayoutBounds::PassPrice LayoutBounds::price(const DegreeChoice& degrees, const PassChoice& passes) const {
  PassPrice price;
  try {
    const Partition passing = partition(degrees, {}, passes);
    const PricedLayout priced(passing, profile_);
    for (const StageCost& stage : make_step_costs(priced).stages)
      price.seconds += stage.forward.seconds + stage.backward.seconds;
    if (passing.recipe.memory.offload.activations) return price;
    price.unit_bytes = std::numeric_limits<double>::infinity();
    BlockCache<double> saved(*graph_);
    for (std::size_t block = 0; block < graph_->blocks.size(); ++block) {
      const OperatorList& operators = priced.operators.of(block);
      if (graph_->blocks[block].is_unit) {
        const double bytes = saved.of(block, [&] { return saved_bytes(operators, passes.recompute); });
        price.unit_bytes = std::min(price.unit_bytes, bytes);
      } else if (block + 1 == graph_->blocks.size()) {
        const double output = output_bytes(*graph_, block, priced.setting());
        price.end_bytes = pass_peak(operators, passes.recompute, output).backward;
      }
    }
  } catch (const Error&) {
    price.seconds = std::numeric_limits<double>::infinity();
  }
  return price;
}

const LayoutBounds::PassPrice& LayoutBounds::pass_price(const DegreeChoice& degrees, const PassChoice& passes) {
  const auto [place, is_new] =
      passes_.try_emplace({degrees.tensor, degrees.context, degrees.expert, degrees.expert_tensor, passes.micro,
                           static_cast<std::int64_t>(passes.recompute), static_cast<std::int64_t>(passes.fp8_level)});
  if (is_new) place->second = price(degrees, passes);
  return place->second;
}

ScheduleShape LayoutBounds::shape_of(const LayoutChoice& choice) const {
  const auto& [degrees, sharding, passes, stages] = choice;
  // Where the cuts are is not known yet. The first block, an embedding, has a stage of its own where blocks count
  // alike.
  const std::size_t beside_layers = stages.balance == BalanceKind::blocks ? 0 : 1;
  const bool may_be_frozen = graph_->first_with_backward() > beside_layers;
  return {.kind = stages.schedule,
          .pipeline = static_cast<std::int32_t>(degrees.pipeline),
          .loops = static_cast<std::int32_t>(stages.loops),
          .micro_batches = static_cast<std::int32_t>(space_.micro_batches(degrees, passes.micro)),
          .zero_stage = static_cast<std::int32_t>(sharding.zero_stage),
          .reduces = degrees.data * degrees.context > 1,
          .fetches = space_.brings_weights(),
          .frozen_stages = static_cast<std::int32_t>(may_be_frozen ? degrees.pipeline * stages.loops : 0)};
}

double LayoutBounds::step_seconds(const ScheduleShape& shape, double window, const StatePrice& states) const {
  const DataCounts counts = data_counts(shape);
  const double data = (counts.gathers_forward + counts.gathers_backward) * states.gather_seconds +
                      counts.reductions * states.reduce_seconds;
  return (space_.overlaps() ? std::max(window, data) : window + data) + states.optimizer_seconds;
}

LayoutBound LayoutBounds::of(const DegreeChoice& degrees, const ShardingChoice& sharding, const PassChoice& passes,
                             const StatePrice& states) {
  const PassPrice& price = pass_price(degrees, passes);
  // Breadth first has the least traffic of all schedules, and with many loops the smallest bubble.
  const ScheduleShape shape = shape_of({degrees, sharding, passes, {}});
  const std::int64_t micros = shape.micro_batches, ranks = degrees.pipeline, units = space_.units();
  const double window = price.seconds * static_cast<double>(std::max(micros, ranks)) / static_cast<double>(ranks);
  // The first rank holds a micro-batch for each rank behind it, unless there are fewer.
  const std::int64_t alive =
      ranks == 1 ? units : std::min(micros, ranks) * std::max<std::int64_t>(0, units / ranks - 1);
  const double first = static_cast<double>(alive) * price.unit_bytes;
  const double last =
      static_cast<double>(std::max<std::int64_t>(0, units / ranks - 1)) * price.unit_bytes + price.end_bytes;
  return {step_seconds(shape, window, states), states.bytes + std::max(first, last)};
}

LayoutBound LayoutBounds::of(const LayoutChoice& choice, const StatePrice& states) {
  const PassPrice& price = pass_price(choice.degrees, choice.passes);
  const ScheduleShape shape = shape_of(choice);
  const bool blocks = choice.stages.balance == BalanceKind::blocks;
  const std::int64_t each = (blocks ? std::ssize(graph_->blocks) : space_.units()) / shape.stages();
  const auto units_alive = [&](std::int32_t rank) {
    const std::vector<std::int64_t> alive = alive_passes(shape, rank);
    // A block that is no unit, such as the embedding or the head, may take the place of one.
    std::int64_t units = blocks ? -(rank == 0 ? alive.front() : alive.back()) : 0;
    for (const std::int64_t passes : alive) units += passes * each;
    return static_cast<double>(units);
  };
  const double first = units_alive(0) * price.unit_bytes;
  const double last = units_alive(shape.pipeline - 1) * price.unit_bytes + price.end_bytes;
  // One stage is in use while the next is gathered, and the gradients of one are not reduced yet.
  const double loops = shape.loops;
  const double whole = states.gathered_bytes * std::min(1.0, 2 / loops) + states.unreduced_bytes / loops;
  const double window = least_window(shape.pipeline, shape.loops, shape.micro_batches, price.seconds);
  return {step_seconds(shape, window, states), states.bytes + std::max(first, last) + whole};
}

}  // namespace llmtrain
