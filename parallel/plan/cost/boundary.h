// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {

// What crosses from one stage to the next: each tensor rank sends its part of the tokens, and without sequence
// parallelism the receivers gather the whole inside the tensor group (Narayanan et al., arXiv 2104.04473, section 4.1).
struct Boundary {
  double sent_bytes = 0;   // by one rank
  double whole_bytes = 0;  // as the receivers' gather makes it; 0 where they gather nothing
};
Boundary boundary_of(const CostContext& context);

// Seconds of one transfer between these pipeline ranks, with the receivers' gather.
double boundary_seconds(const CostContext& context, const RankGroup& neighbours);

}  // namespace llmtrain
