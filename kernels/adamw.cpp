// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <string>

#include "core/base/error.h"
#include "kernels/vector/adamw.h"
#include "kernels/vector/level.h"

namespace llmtrain::kernels {
namespace {

// Elements per thread below which starting another thread costs more than it saves.
constexpr std::int64_t weights_per_thread = 16384;

bool is_flat(const at::Tensor& x, at::ScalarType type) {
  return x.device().is_cpu() && x.scalar_type() == type && x.is_contiguous();
}

void check_size(const char* name, const at::Tensor& x, std::int64_t n) {
  if (x.numel() != n) {
    throw Error(ExitCode::internal_error, std::string("adamw: ") + name + " has " + std::to_string(x.numel()) +
                                              " elements; it must have as many as the weights, " + std::to_string(n));
  }
}

// Training keeps weights and moments in fp32. float64 states (in tests) and GPU tensors use the reference path.
bool can_fuse(const AdamwState& state, const at::Tensor& gradients, const std::optional<at::Tensor>& compute_weights) {
  return is_flat(state.weights, at::kFloat) && is_flat(state.m, at::kFloat) && is_flat(state.v, at::kFloat) &&
         (is_flat(gradients, at::kFloat) || is_flat(gradients, at::kBFloat16)) &&
         (!compute_weights || is_flat(*compute_weights, at::kBFloat16));
}

double bias_correction(double beta, std::int64_t step) { return 1 - std::pow(beta, static_cast<double>(step)); }

// Computed in float64 and rounded once: 1 − β^step and 1 − lr·decay are differences of nearly equal numbers in fp32.
vector::AdamwConstants constants_of(const AdamwStep& step) {
  return {.gradient_scale = static_cast<float>(step.gradient_scale),
          .decay = static_cast<float>(1 - step.learning_rate * step.weight_decay),
          .one_minus_beta1 = static_cast<float>(1 - step.beta1),
          .beta2 = static_cast<float>(step.beta2),
          .one_minus_beta2 = static_cast<float>(1 - step.beta2),
          .root_of_correction = static_cast<float>(std::sqrt(bias_correction(step.beta2, step.step))),
          .eps = static_cast<float>(step.eps),
          .step_size = static_cast<float>(step.learning_rate / bias_correction(step.beta1, step.step))};
}

template <class Gradient, class Kernel>
void fused_step(Kernel kernel, AdamwState& state, const at::Tensor& gradients, const AdamwStep& step,
                const std::optional<at::Tensor>& compute_weights) {
  const vector::AdamwArrays<Gradient> arrays{
      .weights = state.weights.data_ptr<float>(),
      .m = state.m.data_ptr<float>(),
      .v = state.v.data_ptr<float>(),
      .gradients = static_cast<const Gradient*>(gradients.const_data_ptr()),
      .compute_weights = compute_weights ? static_cast<std::uint16_t*>(compute_weights->data_ptr()) : nullptr};
  const vector::AdamwConstants constants = constants_of(step);
  // Elementwise, so dividing the range among threads cannot change a bit of the result.
  at::parallel_for(0, state.weights.numel(), weights_per_thread,
                   [&](std::int64_t begin, std::int64_t end) { kernel(arrays, constants, begin, end); });
}

// The same step in LibTorch operators. The decay multiplies the weights before the update and does not enter the
// moments (decoupled, arXiv 1711.05101, algorithm 2); eps is added to √v after its bias correction, as in PyTorch.
void reference_step(AdamwState& state, const at::Tensor& gradients, const AdamwStep& step) {
  const at::Tensor g = gradients.to(state.weights.scalar_type()).mul(step.gradient_scale);
  state.weights.mul_(1 - step.learning_rate * step.weight_decay);
  state.m.lerp_(g, 1 - step.beta1);
  state.v.mul_(step.beta2).addcmul_(g, g, 1 - step.beta2);
  const at::Tensor denominator = state.v.sqrt().div_(std::sqrt(bias_correction(step.beta2, step.step))).add_(step.eps);
  state.weights.addcdiv_(state.m, denominator, -step.learning_rate / bias_correction(step.beta1, step.step));
}

}  // namespace

void adamw_(AdamwState& state, const at::Tensor& gradients, const AdamwStep& step,
            const std::optional<at::Tensor>& compute_weights) {
  const std::int64_t n = state.weights.numel();
  check_size("m", state.m, n);
  check_size("v", state.v, n);
  check_size("gradients", gradients, n);
  if (compute_weights) check_size("compute_weights", *compute_weights, n);
  // The fused step writes the rounded compute weights in the same pass over memory; the reference needs another one.
  if (!can_fuse(state, gradients, compute_weights)) {
    reference_step(state, gradients, step);
    if (compute_weights) at::Tensor(*compute_weights).copy_(state.weights);
    return;
  }
  const auto kernels = vector::at_level([]<int level> { return vector::adamw_kernels_for<level>(); });
  if (gradients.scalar_type() == at::kFloat) {
    fused_step<float>(kernels.fp32, state, gradients, step, compute_weights);
  } else {
    fused_step<std::uint16_t>(kernels.bf16, state, gradients, step, compute_weights);
  }
}

}  // namespace llmtrain::kernels
