// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/optimizer_cost.h"

namespace llmtrain {
namespace {

// Master weight and both moments, read or written once; FP8's two passes read and write them twice.
double state_bytes(const PrecisionRecipe& precision) {
  const bool low_moments = precision.fp8_level == Fp8Level::o2 || precision.fp8_level == Fp8Level::o3;
  return low_moments ? 2 * (2 + 1 + 2) : 4 + 4 + 4;
}

double gradient_bytes(const PrecisionRecipe& precision) {
  if (precision.fp8_level != Fp8Level::off) return 1;
  return precision.gradients == DataType::fp32 ? 4 : 2;
}

double weight_bytes(const PrecisionRecipe& precision) {
  if (precision.fp8_level == Fp8Level::o3) return 1;
  return precision.compute == DataType::fp32 ? 0 : 2;  // fp32: the weight is the master weight
}

}  // namespace

double optimizer_bytes_per_parameter(const PrecisionRecipe& precision) {
  // Gradients: norm, update, and cleared for the next step.
  return 3 * gradient_bytes(precision) + 2 * state_bytes(precision) + weight_bytes(precision);
}

double optimizer_seconds(const CostContext& context, const ClusterProfile& profile, const ParameterShare& share) {
  const PrecisionRecipe& precision = context.recipe.precision;
  double dense_ranks = 1, expert_ranks = 1;
  if (context.recipe.parallel.zero_stage > 0) {
    dense_ranks = static_cast<double>(shard_group(context.mesh).ranks);
    expert_ranks = static_cast<double>(expert_data_group(context.mesh).ranks);
  }
  const double elements = (share.linear + share.other) / dense_ranks + share.experts / expert_ranks;
  const double bytes = elements * optimizer_bytes_per_parameter(precision) * context.constants.optimizer;
  double seconds = context.roofline.pass(bytes).seconds + share.tensors * profile.host.tensor_seconds;
  if (context.recipe.memory.offload.optimizer) {
    const double moved = elements * (gradient_bytes(precision) + weight_bytes(precision));
    seconds += moved / profile.device.pcie_bandwidth;
  }
  return seconds;
}

}  // namespace llmtrain
