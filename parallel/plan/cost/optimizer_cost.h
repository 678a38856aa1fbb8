// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/cost/block_cost.h"
#include "parallel/plan/cost/parameter_share.h"

namespace llmtrain {

// Bytes that clipping, AdamW and the casts read and write for one parameter; FP8 moments take two passes (FP8-LM).
double optimizer_bytes_per_parameter(const PrecisionRecipe& precision);

// One rank's optimizer step over these parameters: memory traffic of its shard, the host's work for each tensor, and
// with offloaded optimizer states the way over PCIe.
double optimizer_seconds(const CostContext& context, const ClusterProfile& profile, const ParameterShare& share);

}  // namespace llmtrain
