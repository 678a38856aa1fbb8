// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/memory/state_bytes.h"

namespace llmtrain {

bool is_fp8_parameter(const Parameter& parameter, BlockKind block) {
  if (block != BlockKind::layer) return false;
  if (parameter.role == ParameterRole::router_weight || parameter.role == ParameterRole::router_projection_weight)
    return false;
  return parameter.shape.size() == (parameter.has_expert_axis ? std::size_t{3} : std::size_t{2});
}

StateBytes state_bytes(const PrecisionRecipe& precision) {
  const double gradient = precision.gradients == DataType::fp32 ? 4 : 2;
  if (precision.compute == DataType::fp32) return {4, gradient, 0, 8};
  return {2, gradient, 4, 8};
}

StateBytes fp8_state_bytes(Fp8Level level) {
  constexpr double fp8_and_fp16_moments = 3;
  switch (level) {
    case Fp8Level::o1:
      return {2, 1, 0, 8};
    case Fp8Level::o2:
      return {2, 1, 0, fp8_and_fp16_moments};
    default:
      return {1, 1, 2, fp8_and_fp16_moments};
  }
}

}  // namespace llmtrain
