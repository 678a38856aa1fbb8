// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {

enum class TensorOverlap {
  none,
  products,  // gathers and scatters of sequence parallelism overlap the products that they feed (--tp-comm-overlap)
};

// What the cost model assumes of programs on every machine. The numbers are fitted once for all rows, over two thirds
// of the published measurements in tests/published (scripts/score_planner --fit; every third row is held out): none of
// them is specific to one model, row or source. docs/planner.md lists the errors that remain.
struct CostConstants {
  TensorOverlap tensor_overlap = TensorOverlap::none;  // what llmtrain does
  // Replaces the profile's attention for a program with other kernels than those that the profile was fitted to.
  std::optional<AttentionProfile> attention = std::nullopt;
  // Ratios of memory traffic to the least that the operators need to read and write: below 1 where fusion or caches
  // save some of it, above where a framework makes extra passes.
  double elementwise = 0.8;        // norms, activation functions, residuals
  double softmax_forward = 0.602;  // stored attention: relative to one read and one write of the scores
  double softmax_backward = 2.49;  // relative to two reads and one write of the scores
  double cross_entropy = 4.5;      // passes over the fp32 logits in each direction
  double cast = 1.0;               // FP8 casts and transposes
  double optimizer = 0.7;          // clipping and update
  // Exposed share of the additional all-gather in the backward of sequence parallelism, which programs overlap with the
  // product of the input's gradient (Korthikanti et al., arXiv 2205.05198).
  double sequence_regather = 0.231;
  // Host time to launch a backward operator, relative to a forward one: autograd replays it without Python.
  double backward_host = 0.143;
  // Host time of a transfer that the program waits for, relative to one that overlaps passes.
  double blocking_transfer = 2.475;
};

}  // namespace llmtrain
