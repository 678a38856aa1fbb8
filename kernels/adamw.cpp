// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <cstdint>

#include "kernels/cuda_operators/adamw.h"
#include "kernels/fp8/adamw_parts.h"
#include "kernels/vector/adamw.h"

namespace llmtrain::kernels {
namespace {

// Training keeps weights and moments in fp32. float64 states (in tests) use the reference path.
bool has_fp32_states(const AdamwState& state) {
  return is_flat(state.weights, at::kFloat) && is_flat(state.m, at::kFloat) && is_flat(state.v, at::kFloat);
}

bool can_fuse(const AdamwState& state, const at::Tensor& gradients, const std::optional<at::Tensor>& compute_weights) {
  return has_fp32_states(state) && (is_flat(gradients, at::kFloat) || is_flat(gradients, at::kBFloat16)) &&
         (!compute_weights || is_flat(*compute_weights, at::kBFloat16));
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
  const AdamwConstants constants = constants_of(step);
  // Elementwise, so dividing the range among threads cannot change a bit of the result.
  at::parallel_for(0, state.weights.numel(), weights_per_thread,
                   [&](std::int64_t begin, std::int64_t end) { kernel(arrays, constants, begin, end); });
}

// Elements that are converted or computed at a time by operators which return new memory: few enough for a processor's
// cache.
constexpr std::int64_t elements_per_piece = 1 << 16;

// Calls work(states, gradients, compute weights) for one piece after the other, so that temporary memory is as large as
// a piece, not as the shard of a rank (the tiled optimizer of Singh et al., arXiv 2303.06318).
template <class Work>
void in_pieces(const AdamwState& state, const at::Tensor& gradients, const std::optional<at::Tensor>& compute_weights,
               Work work) {
  for (std::int64_t begin = 0; begin < state.weights.numel(); begin += elements_per_piece) {
    const auto part = [&](const at::Tensor& x) { return x.slice(0, begin, begin + elements_per_piece); };
    AdamwState states{part(state.weights), part(state.m), part(state.v)};
    work(states, part(gradients));
    if (compute_weights) part(*compute_weights).copy_(states.weights);
  }
}

// The loops know no fp16: gradients are widened, and compute weights rounded.
void fused_step_in_pieces(const AdamwState& state, const at::Tensor& gradients, const AdamwStep& step,
                          const std::optional<at::Tensor>& compute_weights) {
  const auto kernel = adamw_loops().fp32;
  in_pieces(state, gradients, compute_weights, [&](AdamwState& states, const at::Tensor& part) {
    fused_step<float>(kernel, states, part.to(at::kFloat), step, std::nullopt);
  });
}

// The same step in LibTorch operators. The decay multiplies the weights before the update and does not enter the
// moments (decoupled, arXiv 1711.05101, algorithm 2); eps is added to √v after its bias correction, as in PyTorch.
void reference_step(const AdamwState& state, const at::Tensor& gradients, const AdamwStep& step,
                    const std::optional<at::Tensor>& compute_weights) {
  const double root = std::sqrt(bias_correction(step.beta2, step.step));
  const double size = step.learning_rate / bias_correction(step.beta1, step.step);
  in_pieces(state, gradients, compute_weights, [&](AdamwState& states, const at::Tensor& part) {
    const at::Tensor g = part.to(states.weights.scalar_type()).mul(step.gradient_scale);
    states.weights.mul_(1 - step.learning_rate * step.weight_decay);
    states.m.lerp_(g, 1 - step.beta1);
    states.v.mul_(step.beta2).addcmul_(g, g, 1 - step.beta2);
    const at::Tensor denominator = states.v.sqrt().div_(root).add_(step.eps);
    states.weights.addcdiv_(states.m, denominator, -size);
  });
}

// A run of elements with one decay, on a processor or in LibTorch's operators.
void step_run(AdamwState& state, const at::Tensor& gradients, const AdamwStep& step,
              const std::optional<at::Tensor>& compute_weights) {
  // The fused step writes the rounded compute weights in the same pass over memory; the others need another one.
  if (!can_fuse(state, gradients, compute_weights)) {
    const bool has_loop = has_fp32_states(state) && gradients.is_cpu();
    return (has_loop ? fused_step_in_pieces : reference_step)(state, gradients, step, compute_weights);
  }
  const auto kernels = adamw_loops();
  if (gradients.scalar_type() == at::kFloat) {
    fused_step<float>(kernels.fp32, state, gradients, step, compute_weights);
  } else {
    fused_step<std::uint16_t>(kernels.bf16, state, gradients, step, compute_weights);
  }
}

}  // namespace

void adamw_(AdamwState& state, const at::Tensor& gradients, const AdamwStep& step,
            const std::optional<at::Tensor>& compute_weights, const DecayRuns& runs) {
  const std::int64_t n = state.weights.numel();
  check_size("m", state.m, n);
  check_size("v", state.v, n);
  check_size("gradients", gradients, n);
  if (compute_weights) check_size("compute_weights", *compute_weights, n);
  if (has_cuda_adamw(state, gradients, compute_weights))
    return cuda_adamw_(state, gradients, step, compute_weights, runs);
  AdamwStep of_run = step;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i <= runs.changes.size(); ++i) {
    const std::int64_t end = i < runs.changes.size() ? runs.changes[i] : n;
    const auto part = [begin, end](const at::Tensor& x) { return x.slice(0, begin, end); };
    AdamwState states{part(state.weights), part(state.m), part(state.v)};
    std::optional<at::Tensor> rounded;
    if (compute_weights) rounded = part(*compute_weights);
    of_run.weight_decay = (i % 2 == 0) == runs.first_decays ? step.weight_decay : 0;
    step_run(states, part(gradients), of_run, rounded);
    begin = end;
  }
}

}  // namespace llmtrain::kernels
