// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/roofline.h"

#include <algorithm>

namespace llmtrain {
namespace {

// Half of the limit at `size` = `half`.
double saturating(double size, double half) { return size / (size + half); }

}  // namespace

double shape_efficiency(const MatrixProfile& curve, const MatrixProduct& product) {
  const double results = product.batch * product.rows * product.columns;
  return saturating(product.inner, curve.inner_half) * saturating(results, curve.outer_half * curve.outer_half);
}

Roofline::Roofline(const ClusterProfile& profile, const PrecisionRecipe& precision)
    : profile_(profile),
      attention_(profile.program.attention_on(profile.name).value_or(profile.attention)),
      // FP8 off: FP8 products have a curve of their own, the others run in the compute type at every level.
      peak_(peak_flops(profile, PrecisionRecipe{.compute = precision.compute, .tf32 = precision.tf32})),
      element_bytes_(llmtrain::element_bytes(element_type(precision.compute))) {}

// The startup term dominates small passes, the bandwidth large ones.
double Roofline::memory_seconds(double bytes) const {
  // bytes ÷ (bandwidth · fraction · bytes ÷ (bytes + half)), simplified: a fixed start-up time plus the transfer.
  return (bytes + profile_.memory.half_bytes) / (profile_.device.memory_bandwidth * profile_.memory.fraction);
}

Work Roofline::product(const MatrixProduct& product, MatrixType type) const {
  // An empty product launches nothing.
  if (product.rows <= 0 || product.batch <= 0) return {};
  // On a device without FP8 products they run in the compute type: FP8 then saves only memory and traffic.
  const bool fp8 =
      type == MatrixType::fp8 && profile_.device.peak_flops.fp8 > 0 && profile_.matrix.fp8_peak_fraction > 0;
  const MatrixProfile& curve = profile_.matrix;
  const double peak = fp8 ? profile_.device.peak_flops.fp8 * curve.fp8_peak_fraction : peak_ * curve.peak_fraction;
  const double efficiency = shape_efficiency(curve, product);
  const double operand_bytes = fp8 ? 1 + profile_.program.fp8.scale_bytes : element_bytes_;
  // Two operands in their type, in FP8 with their scales; results are always in the compute type.
  const double bytes = product.batch * (operand_bytes * product.inner * (product.rows + product.columns) +
                                        element_bytes_ * product.rows * product.columns);
  const double seconds = std::max(product.flops() / (peak * efficiency), memory_seconds(bytes));
  return {seconds + profile_.device.kernel_seconds, 1};
}

Work Roofline::pass(double bytes) const {
  if (bytes <= 0) return {};
  return {memory_seconds(bytes) + profile_.device.kernel_seconds, 1};
}

// Without a term for memory: a fused kernel's scores never leave the chip (Dao et al., arXiv 2205.14135).
Work Roofline::attention_forward(double flops) const {
  return {flops / (peak_ * attention_.forward_fraction) + profile_.device.kernel_seconds, 1};
}

Work Roofline::attention_backward(double flops) const {
  return {flops / (peak_ * attention_.backward_fraction) + profile_.device.kernel_seconds, 1};
}

double Roofline::seconds(const Work& work) const {
  const double host = work.operators * profile_.host.operator_seconds;
  // Launches run ahead of the device, so that the slower of the two decides; a host that waits for each operator, as
  // with CUDA_LAUNCH_BLOCKING=1, adds to its time.
  return profile_.program.host.synchronous ? work.seconds + host : std::max(work.seconds, host);
}

}  // namespace llmtrain
