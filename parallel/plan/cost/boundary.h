// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {

// The tensor that one stage sends to the next: each tensor rank sends its part of the tokens, and without sequence
// parallelism the receivers gather the whole inside the tensor group (Narayanan et al., arXiv 2104.04473, section 4.1).
struct Boundary {
  double sent_bytes = 0;   // per tensor rank
  double whole_bytes = 0;  // result of the receivers' gather; 0 where they gather nothing
};
Boundary boundary_of(const CostContext& context);

// Seconds of one transfer between these pipeline ranks, including the receivers' gather.
double boundary_seconds(const CostContext& context, const RankGroup& neighbours);

}  // namespace llmtrain
