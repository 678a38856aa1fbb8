// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/cost/block_cost.h"

namespace llmtrain {

// What crosses from one stage to the next: each tensor rank sends its part of the tokens, and without sequence
// parallelism the receivers gather the whole inside the tensor group (Narayanan et al., arXiv 2104.04473, section 4.1).
double boundary_bytes(const Recipe& recipe, const Mesh& mesh);         // that one rank sends to the next stage
double boundary_tensor_bytes(const Recipe& recipe, const Mesh& mesh);  // whole, as the receivers' gather makes it
double boundary_seconds(const CostContext& context, const RankGroup& neighbours);

// The two ranks that hold a tied embedding: the first and the last of the pipeline.
RankGroup tied_embedding_group(const Mesh& mesh);

}  // namespace llmtrain
