// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace llmtrain {

// The bytes that ranks hold in a step: the interface between the memory model, which writes it, and the simulator,
// which reads it.

// What memory is used for, as a plan reports it and a run measures it (docs/planner.md).
enum class MemoryCategory {
  weights,
  gradients,
  master_weights,
  optimizer,
  activations,
  buffers,
  communication,
  framework,
};
constexpr std::size_t memory_categories = 8;

struct MemoryBytes {
  std::array<double, memory_categories> bytes{};

  double& operator[](MemoryCategory category) { return bytes[static_cast<std::size_t>(category)]; }
  double operator[](MemoryCategory category) const { return bytes[static_cast<std::size_t>(category)]; }
  double total() const {
    double sum = 0;
    for (const double part : bytes) sum += part;
    return sum;
  }
};

// What happens to a stage at which memory begins or ceases to be held, releases before acquisitions: this is the order
// of events of the same instant.
enum class MemoryEvent : std::uint8_t {
  forward_ends,
  backward_ends,
  activation_is_sent,
  gradient_is_sent,
  weights_are_freed,
  // The rank's next reduction or optimizer step after ReduceGradients or, without overlap of data traffic, the end of
  // ReduceGradients: until then a reduction may read the whole gradients.
  gradients_are_reduced,
  later_gradients_are_reduced,  // the same, but not of the step's first reduction
  gradients_have_left,          // at the rank's next EvictGradients or the optimizer step after that of the stage
  optimizer_ends,
  // ReduceGradients casts what backwards have summed since the last one; the optimizer's step, or the stage's
  // EvictGradients where nothing is reduced, what they have summed in the whole step. What is cast is released after
  // it.
  sums_are_cast,
  step_sums_are_cast,
  sums_end,
  step_sums_end,
  gradients_are_packed,  // in ReduceGradients, before the next pass starts
  // The first pass after GatherWeights starts, before it takes memory of its own; where no backward of the stage has
  // added to its gradients since others began them, the second of these.
  weights_are_joined,
  weights_are_joined_early,
  forward_starts,
  backward_starts,
  activation_arrives,  // its transfer begins
  gradient_arrives,
  weights_are_gathered,  // their gather begins
  gradients_begin,       // in the first pass that adds to them since the last reduction: the head's forward, a backward
  step_gradients_begin,  // the same of the step, where stages are updated one by one
  sums_begin,            // in the stage's first backward since the last reduction
  step_sums_begin,       // in its first backward of the step
  first_reduction_starts,  // of the step
  later_reduction_starts,
  optimizer_starts,
};
constexpr std::size_t memory_events = static_cast<std::size_t>(MemoryEvent::optimizer_starts) + 1;

enum class MemoryPlace : std::uint8_t { device, host };

// Bytes that every `begins` of a stage takes and every `ends` gives back, on one rank (the one of its data-parallel
// group that holds most). What begins and ends with the same event is held for a moment.
struct Holding {
  MemoryCategory category{};
  double bytes = 0;
  MemoryEvent begins{}, ends{};
  MemoryPlace place = MemoryPlace::device;
  // Where it is held for a moment: what begins with this event at the same instant is there already.
  std::optional<MemoryEvent> beside = {};
  // What `ends` gives back serves the next `begins`, and nothing else: as much is held to the end as there was at once.
  bool is_kept = false;

  bool is_momentary() const { return begins == ends; }
};

struct StageMemory {
  MemoryBytes resident;       // throughout the step: shards or whole weights, gradients, master weights, moments
  MemoryBytes host_resident;  // the same on the host instead of the device (memory.offload)
  double disk = 0;            // bytes of the same in the rank's file, of its first stage those of all its stages
  // What comes and goes. The order in which an event changes categories is that of the holdings.
  std::vector<Holding> holdings;
  // Other stages whose gradients its Backward adds to, because they hold parameters for it.
  std::vector<std::int32_t> backward_adds_to;

  void hold(const Holding& holding) {
    if (holding.bytes != 0) holdings.push_back(holding);
  }
  double held(MemoryEvent begins, MemoryEvent ends, MemoryPlace place = MemoryPlace::device) const {
    double bytes = 0;
    for (const Holding& holding : holdings)
      if (holding.begins == begins && holding.ends == ends && holding.place == place) bytes += holding.bytes;
    return bytes;
  }
};

struct StepMemory {
  std::vector<StageMemory> stages;     // by stage
  MemoryBytes rank;                    // on every rank, independent of its stages: framework, communication buffers
  std::vector<Holding> rank_holdings;  // as of the first stage of each: what the optimizer works with
  // The head's gradients are computed in the last stage's Forward. They belong to the last stage or to that which holds
  // the head's weight for it, whose unreduced gradients then begin at that point.
  std::optional<std::int32_t> head_adds_to;
};

}  // namespace llmtrain
