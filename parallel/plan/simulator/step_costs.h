// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/collective.h"
#include "parallel/plan/simulator/wires.h"

namespace llmtrain {

// The seconds that each instruction of a schedule takes: the interface between the cost model, which writes it, and the
// simulator, which reads it.

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
  double update_seconds = 0;       // of an OptimizerStep of this stage alone
  double evict_seconds = 0;        // that its gradients take to the host, beside other things
  double buckets = 1;
  WireSeconds gather_wires{}, reduce_wires{}, last_reduce_wires{};
};

struct StepCosts {
  std::vector<StageCost> stages;  // by stage; pipeline × loops entries
  // By stage, of the values that cross the cut behind it, or of their gradients in the other direction; 0 between
  // stages of one rank. The last stage sends nothing: its entry is of what the one before it sends, on the link from
  // its rank to the first, which estimates count with the others.
  std::vector<double> transfer_seconds;
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

}  // namespace llmtrain
