// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

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
bool has_fp32_states(const AdamwState& state) {
  return is_flat(state.weights, at::kFloat) && is_flat(state.m, at::kFloat) && is_flat(state.v, at::kFloat);
}

bool can_fuse(const AdamwState& state, const at::Tensor& gradients, const std::optional<at::Tensor>& compute_weights) {
  return has_fp32_states(state) && (is_flat(gradients, at::kFloat) || is_flat(gradients, at::kBFloat16)) &&
         (!compute_weights || is_flat(*compute_weights, at::kBFloat16));
}

vector::AdamwKernels adamw_loops() {
  return vector::at_level([]<int level> { return vector::adamw_kernels_for<level>(); });
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

// Elements that are converted or computed at a time by operators which return new memory: on a GPU enough to hide the
// launches, on a processor few enough for its cache.
std::int64_t piece_elements(const at::Tensor& weights) { return weights.is_cpu() ? 1 << 16 : 1 << 21; }

// Calls work(states, gradients, compute weights) for one piece after the other, so that temporary memory is as large as
// a piece, not as the shard of a rank (the tiled optimizer of Singh et al., arXiv 2303.06318).
template <class Work>
void in_pieces(const AdamwState& state, const at::Tensor& gradients, const std::optional<at::Tensor>& compute_weights,
               Work work) {
  const std::int64_t piece = piece_elements(state.weights);
  for (std::int64_t begin = 0; begin < state.weights.numel(); begin += piece) {
    const auto part = [&](const at::Tensor& x) { return x.slice(0, begin, begin + piece); };
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

void check_payload(const char* name, const at::Tensor& x, at::ScalarType type, std::int64_t n) {
  check_size(name, x, n);
  if (!is_flat(x, type))
    throw Error(ExitCode::internal_error,
                std::string("adamw: scaled ") + name + " must be contiguous on the CPU, in " + c10::toString(type));
}

template <class Type>
constexpr at::ScalarType payload_type() {
  if (std::is_same_v<Type, float>) return at::kFloat;
  return std::is_same_v<Type, std::uint16_t> ? at::kHalf : at::kFloat8_e4m3fn;
}

// Of a payload of n elements, which `name` calls.
template <class Type>
Type* elements_of(const char* name, const ScaledAdamwState::Array& array, std::int64_t n) {
  check_payload(name, array.payload, payload_type<Type>(), n);
  return static_cast<Type*>(array.payload.data_ptr());
}

template <class Gradient, class Moments>
vector::ScaledAdamwArrays<Gradient, Moments> arrays_of(const ScaledAdamwState& state) {
  const std::int64_t n = state.weights.payload.numel();
  return {.weights = elements_of<std::uint16_t>("weights", state.weights, n),
          .m = elements_of<typename Moments::First>("m", state.m, n),
          .v = elements_of<typename Moments::Second>("v", state.v, n),
          .gradients = elements_of<Gradient>("gradients", state.gradients, n)};
}

// Calls body(arrays, loops) for the gradients' type.
template <class Moments, class Body>
void with_gradients_of(const ScaledAdamwState& state, const vector::ScaledAdamwKernelsOf<Moments>& loops, Body body) {
  if (state.gradients.payload.scalar_type() == at::kFloat) return body(arrays_of<float, Moments>(state), loops.fp32);
  body(arrays_of<std::uint8_t, Moments>(state), loops.e4m3);
}

// And for the moments'.
template <class Body>
void with_arrays_of(const ScaledAdamwState& state, Body body) {
  if (state.m.payload.scalar_type() == at::kFloat) return with_gradients_of(state, adamw_loops().fp32_moments, body);
  with_gradients_of(state, adamw_loops().small_moments, body);
}

vector::ScaledAdamwConstants constants_of(const ScaledAdamwState& state, const AdamwStep& step) {
  return {.step = constants_of(step),
          .weights = 1 / state.weights.scale,
          .m = 1 / state.m.scale,
          .v = 1 / state.v.scale,
          .gradients = 1 / state.gradients.scale};
}

}  // namespace

void adamw_(AdamwState& state, const at::Tensor& gradients, const AdamwStep& step,
            const std::optional<at::Tensor>& compute_weights) {
  const std::int64_t n = state.weights.numel();
  check_size("m", state.m, n);
  check_size("v", state.v, n);
  check_size("gradients", gradients, n);
  if (compute_weights) check_size("compute_weights", *compute_weights, n);
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

AdamwNumbers scaled_adamw_largest(const ScaledAdamwState& state, const AdamwStep& step) {
  const vector::ScaledAdamwConstants constants = constants_of(state, step);
  const std::int64_t n = state.weights.payload.numel(), pieces = (n + weights_per_thread - 1) / weights_per_thread;
  // Pieces of a fixed size, each with a place for its result, instead of atomic operations on three numbers.
  std::vector<vector::OfAdamwStates<std::uint32_t>> found(static_cast<std::size_t>(pieces));
  with_arrays_of(state, [&](const auto& arrays, const auto& loops) {
    at::parallel_for(0, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        found[static_cast<std::size_t>(i)] =
            loops.largest(arrays, constants, i * weights_per_thread, std::min((i + 1) * weights_per_thread, n));
    });
  });
  std::uint32_t weights = 0, m = 0, v = 0;
  for (const auto& piece : found) {
    weights = std::max(weights, piece.weights);
    m = std::max(m, piece.m);
    v = std::max(v, piece.v);
  }
  return {std::bit_cast<float>(weights), std::bit_cast<float>(m), std::bit_cast<float>(v)};
}

void scaled_adamw_(const ScaledAdamwState& state, const AdamwStep& step, const AdamwNumbers& next) {
  const vector::ScaledAdamwConstants constants = constants_of(state, step);
  const vector::OfAdamwStates<float> scales{next.weights, next.m, next.v};
  with_arrays_of(state, [&](const auto& arrays, const auto& loops) {
    at::parallel_for(0, state.weights.payload.numel(), weights_per_thread,
                     [&](std::int64_t begin, std::int64_t end) { loops.step(arrays, constants, scales, begin, end); });
  });
}

}  // namespace llmtrain::kernels
