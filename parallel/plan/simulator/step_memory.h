// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmtrain {

// Bytes by what they are for, as a plan reports and a run counts them (design.md §5).
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

// What a stage's instructions take and give back on one rank (the one of its data-parallel group that holds most).
// Workspaces are the most that is alive during the pass less the saved activations after it, so that a pass's peak is
// saved_activations + workspace with the micro-batch's own saved activations in it. Between two stages of one rank
// (pipeline 1) the tensor that one hands to the other, and later its gradient, is a saved activation of the first. What
// a pass receives from or sends to another rank is counted as boundary_activation while it runs, not as workspace.
struct StageMemory {
  MemoryBytes resident;         // all the time: shards or whole weights, gradients, master weights, moments
  double gathered_weights = 0;  // GatherWeights … FreeWeights (ZeRO-3): category weights
  // First Backward … the rank's next reduction or optimizer step after ReduceGradients, or with data traffic that does
  // not overlap its end (ZeRO-2 and -3): category gradients.
  double unreduced_gradients = 0;
  double saved_activations = 0;    // Forward … Backward of one micro-batch: what the backward needs
  double forward_workspace = 0;    // during one Forward, besides what is saved: category buffers
  double backward_workspace = 0;   // during one Backward (recomputed activations, logits' gradients): buffers
  double boundary_activation = 0;  // one received or sent tensor: category communication
  // What memory.offload moved to the host, on no device: states of this rank, and activations of one micro-batch.
  MemoryBytes host_resident;
  double host_activations = 0;
};

struct StepMemory {
  std::vector<StageMemory> stages;  // by stage
  MemoryBytes rank;                 // on every rank whatever it holds: framework, communication buffers
  double optimizer_workspace = 0;   // during OptimizerStep: buffers
  // The head's gradients are computed in the last stage's Forward. They are the last stage's or, with tied embeddings
  // on one rank, the first one's, whose unreduced gradients begin there then.
  bool head_adds_to_first = false;
};

}  // namespace llmtrain
