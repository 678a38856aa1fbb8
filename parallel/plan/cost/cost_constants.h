// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {

enum class TensorOverlap {
  none,
  products,  // gathers and scatters of sequence parallelism go beside the products that they feed (--tp-comm-overlap)
};

// What the cost model assumes of programs on every machine. Fitted once, over all published rows that are not kept out
// of the fit (scripts/score_planner): none of them belongs to one model, row or source.
struct CostConstants {
  TensorOverlap tensor_overlap = TensorOverlap::none;  // what llmtrain does
  // Of a program with other kernels than those that the profile was fitted to.
  std::optional<AttentionProfile> attention = std::nullopt;
  double elementwise = 0.8;          // bytes of norms, activations, residuals, over what the operators need at least
  double softmax_forward = 0.602;    // passes over the scores, over one read and one write
  double softmax_backward = 2.49;    // over two reads and one write
  double cross_entropy = 4.5;        // passes over the logits in 32 bits in each direction
  double cast = 1.0;                 // bytes of FP8 casts and transposes, over what they need at least
  double optimizer = 0.7;            // bytes of clipping and update, over what they need at least
  double sequence_regather = 0.231;  // share of the extra all-gather in the backward of sequence parallelism that shows
  double backward_host = 0.143;      // host time to start a backward operator, over that of a forward one
  double blocking_transfer =
      2.475;  // host time of a transfer that the program waits for, over that of one beside passes
};

}  // namespace llmtrain
