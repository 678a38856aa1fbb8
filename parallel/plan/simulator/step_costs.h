// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/collective.h"
#include "parallel/plan/simulator/wires.h"

namespace llmtrain {

// The seconds that each instruction of a schedule takes, and the bytes that it holds: the interface between the cost
// and memory models, which write it, and the simulator, which reads it.

// One stage, one micro-batch. Collectives inside a pass (tensor, sequence, context, expert) occupy the rank: they are
// part of the pass and are listed separately only for the report.
struct PassCost {
  double seconds = 0;                // the whole pass, collectives and recompute included
  double communication_seconds = 0;  // of it, collectives that nothing hides
  double recompute_seconds = 0;      // of it, the repeated forward (backward passes only)
  WireSeconds wires{};               // of all its collectives, hidden or not
};

// With overlap a stage's states move bucket by bucket, in `buckets` equal parts, during its own passes: each bucket of
// a reduction follows the part of the backward that completes it, and the updated weights of ZeRO-1 and -2 precede the
// part of the next step's first forward that reads them. Seconds are those of whole collectives alone.
struct StageCost {
  PassCost forward;
  PassCost backward;
  double gather_seconds = 0;       // all-gather of the stage's weights (ZeRO-3, and after the step at ZeRO-1 and -2)
  double reduce_seconds = 0;       // all-reduce or reduce-scatter of the stage's gradients
  double last_reduce_seconds = 0;  // what the step's last reduction takes longer
  double buckets = 1;
  WireSeconds gather_wires{}, reduce_wires{}, last_reduce_wires{};
};

struct StepCosts {
  std::vector<StageCost> stages;            // by stage; pipeline × loops entries
  std::vector<double> transfer_seconds;     // of a boundary tensor between pipeline rank r and (r + 1) mod pipeline
  std::vector<WireSeconds> transfer_wires;  // of each of these; empty: none
  std::vector<double> optimizer_seconds;    // by pipeline rank: clipping, the step, casts
  double step_overhead_seconds = 0;         // once per step, all ranks: data loading, synchronisation, logging
  double compute_slowdown = 0;              // fraction of a collective's duration that a concurrent pass loses
  bool overlap = true;                      // gathers and reductions run concurrently with passes
  bool blocking_transfers = false;  // send and receive block the compute stream: without overlap, as in Megatron-LM
};

// One row of the communication table: what the busiest rank sends in one step.
struct CommunicationEntry {
  Collective collective{};
  Purpose purpose{};
  std::string tensors;  // what kind of them: "gradients", "weights", "activations"
  std::int64_t ranks = 1;
  double bytes_per_rank_per_step = 0;  // sent
  double seconds = 0;                  // per step, without overlap
  double exposed_seconds = 0;          // of them, those that no computation hides: known after the simulation
};

// The collective's name in a plan, where one entry covers the send of one stage and the receive of the other.
inline std::string_view planned_name(Collective collective) {
  return collective == Collective::send ? "send_receive" : collective_name(collective);
}

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

// Bytes that a stage's instructions allocate and free on one rank (the one of its data-parallel group that holds most).
// A workspace is the most that is alive during the pass minus the activations saved after it, so that a pass's peak is
// saved_activations + workspace, the micro-batch's own saved activations included. Between two stages of one rank
// (pipeline 1) the boundary tensor, and later its gradient, is a saved activation of the first. A tensor received from
// or sent to another rank is counted as boundary_activation while its pass runs, not as workspace.
struct StageMemory {
  MemoryBytes resident;         // throughout the step: shards or whole weights, gradients, master weights, moments
  double gathered_weights = 0;  // GatherWeights … FreeWeights (ZeRO-3): category weights
  // From the first Backward to the rank's next reduction or optimizer step after ReduceGradients or, without overlap of
  // data traffic, to the end of ReduceGradients (ZeRO-2 and -3): category gradients.
  double unreduced_gradients = 0;
  // From the first Backward to ReduceGradients or the optimizer step, whichever makes FP8 of them: category gradients.
  double accumulated_gradients = 0;
  // Those are of all micro-batches: until the optimizer step, whatever is reduced before.
  bool accumulates_step = false;
  double cast_gradients = 0;  // the FP8 ones of these, from then to the end of the reduction (ZeRO-2 and -3)
  double wide_gradients = 0;  // those of layers that have left FP8, from then to the end of OptimizerStep
  // The shard that the second and later reductions of a step receive before it is added to the first one's:
  // ReduceGradients to the end of the reduction, like unreduced_gradients (ZeRO-2 and -3): category gradients.
  double partial_gradients = 0;
  // For a moment, as the first pass after GatherWeights starts and in ReduceGradients: slices of experts that are
  // joined into wider matrices, and gradients that are cut into slices again (ZeRO-3).
  double joined_weights = 0, packed_gradients = 0;
  double saved_activations = 0;    // Forward … Backward of one micro-batch: what the backward needs
  double forward_workspace = 0;    // during one Forward, in addition to what is saved: category buffers
  double backward_workspace = 0;   // during one Backward (recomputed activations, logits' gradients): buffers
  double boundary_activation = 0;  // one received or sent tensor: category communication
  // Other stages whose gradients its Backward adds to, because they hold parameters for it.
  std::vector<std::int32_t> backward_adds_to;
  // On the host instead of the device (memory.offload): states of this rank, and activations of one micro-batch.
  MemoryBytes host_resident;
  double host_activations = 0;
};

struct StepMemory {
  std::vector<StageMemory> stages;  // by stage
  MemoryBytes rank;                 // on every rank, independent of its stages: framework, communication buffers
  double optimizer_workspace = 0;   // during OptimizerStep: buffers
  // The head's gradients are computed in the last stage's Forward. They belong to the last stage or to that which holds
  // the head's weight for it, whose unreduced gradients then begin at that point.
  std::optional<std::int32_t> head_adds_to;
};

}  // namespace llmtrain
