// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/adamw.h"

#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

// Whether compute weights are written is a template parameter, so that the loop has no branch.
template <bool with_compute_weights, class Gradient>
void update(const AdamwArrays<Gradient>& arrays, const AdamwConstants& constants, std::int64_t begin,
            std::int64_t end) {
  float* __restrict weights = arrays.weights;
  float* __restrict m = arrays.m;
  float* __restrict v = arrays.v;
  const Gradient* __restrict gradients = arrays.gradients;
  std::uint16_t* __restrict compute_weights = arrays.compute_weights;
  // A local copy: the compiler need not expect that stores to the arrays change it.
  const AdamwConstants c = constants;
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = to_float(gradients[i]) * c.gradient_scale;
    // m + (1 − β₁)(g − m), which is how PyTorch's lerp rounds.
    const float new_m = multiply_add(g - m[i], c.one_minus_beta1, m[i]);
    const float new_v = multiply_add(g * g, c.one_minus_beta2, v[i] * c.beta2);
    // Divides by √(1 − β₂ᵗ) before eps is added, as PyTorch does: eps is relative to the corrected moment.
    const float denominator = __builtin_sqrtf(new_v) / c.root_of_correction + c.eps;
    const float weight = multiply_add(weights[i], c.decay, -(c.step_size * new_m / denominator));
    m[i] = new_m;
    v[i] = new_v;
    weights[i] = weight;
    if constexpr (with_compute_weights) compute_weights[i] = to_bf16(weight);
  }
}

template <class Gradient>
void adamw(const AdamwArrays<Gradient>& arrays, const AdamwConstants& constants, std::int64_t begin, std::int64_t end) {
  if (arrays.compute_weights == nullptr) {
    update<false>(arrays, constants, begin, end);
  } else {
    update<true>(arrays, constants, begin, end);
  }
}

}  // namespace

template <>
AdamwKernels adamw_kernels_for<LLMTRAIN_VECTOR_LEVEL>() {
  return {adamw<float>, adamw<std::uint16_t>};
}

}  // namespace llmtrain::kernels::vector
