// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmtrain {

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
  double saved_activations = 0;    // Forward … Backward of one micro-batch: what the backward needs
  double forward_workspace = 0;    // during one Forward, in addition to what is saved: category buffers
  double backward_workspace = 0;   // during one Backward (recomputed activations, logits' gradients): buffers
  double boundary_activation = 0;  // one received or sent tensor: category communication
  // On the host instead of the device (memory.offload): states of this rank, and activations of one micro-batch.
  MemoryBytes host_resident;
  double host_activations = 0;
};

struct StepMemory {
  std::vector<StageMemory> stages;  // by stage
  MemoryBytes rank;                 // on every rank, independent of its stages: framework, communication buffers
  double optimizer_workspace = 0;   // during OptimizerStep: buffers
  // The head's gradients are computed in the last stage's Forward. They belong to the last stage or, with tied
  // embeddings on one rank, to the first, whose unreduced gradients then begin at that point.
  bool head_adds_to_first = false;
};

}  // namespace llmtrain
