// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/adamw.h"

#include "core/base/small_float.h"
#include "kernels/vector/math.h"
#include "kernels/vector/random_words.h"

namespace llmtrain::kernels::vector {
namespace {

struct Element {
  float weight, m, v;
};

// `gradient` without the clipping coefficient.
inline Element stepped(const Element& before, float gradient, const AdamwConstants& c) {
  const float g = gradient * c.gradient_scale;
  // m + (1 − β₁)(g − m), which is how PyTorch's lerp rounds.
  const float m = multiply_add(g - before.m, c.one_minus_beta1, before.m);
  const float v = multiply_add(g * g, c.one_minus_beta2, before.v * c.beta2);
  // Divides by √(1 − β₂ᵗ) before eps is added, as PyTorch does: eps is relative to the corrected moment.
  const float denominator = __builtin_sqrtf(v) / c.root_of_correction + c.eps;
  return {multiply_add(before.weight, c.decay, -(c.step_size * m / denominator)), m, v};
}

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
    const Element after = stepped({weights[i], m[i], v[i]}, to_float(gradients[i]), c);
    m[i] = after.m;
    v[i] = after.v;
    weights[i] = after.weight;
    if constexpr (with_compute_weights) compute_weights[i] = to_bf16(after.weight);
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

inline float widened(std::uint8_t payload) { return Float8E4M3::widen(payload); }
inline float widened(std::uint16_t payload) { return Float16::widen(payload); }
inline float widened(float value) { return value; }

template <class Gradient, class Moments>
Element scaled_step(std::uint16_t weight, typename Moments::First m, typename Moments::Second v, Gradient gradient,
                    const ScaledAdamwConstants& c) {
  const Element before{widened(weight) * c.weights, widened(m) * c.m, widened(v) * c.v};
  return stepped(before, widened(gradient) * c.gradients, c.step);
}

inline void store_first(std::uint8_t& place, float m) { place = Float8E4M3::narrow_saturating(m); }
inline void store_first(float& place, float m) { place = m; }

// Rounded to nearest, but to the least number instead of 0: a first moment over a second one that has been rounded away
// would be divided by eps alone.
inline void store_second(std::uint16_t& place, float v) {
  const std::uint16_t rounded = Float16::narrow(v), least = v > 0 ? 1 : 0;
  place = rounded < least ? least : rounded;
}
inline void store_second(float& place, float v) { place = v; }

// As integers NaN's bits are above those of infinity, so that it stays the maximum; a comparison of floats would drop
// it.
inline std::uint32_t larger(std::uint32_t bits, float value) {
  const std::uint32_t magnitude = as_bits(value) & 0x7fffffffu;
  return bits < magnitude ? magnitude : bits;
}

template <class Gradient, class Moments>
OfAdamwStates<std::uint32_t> scaled_largest(const ScaledAdamwArrays<Gradient, Moments>& arrays,
                                            const ScaledAdamwConstants& constants, std::int64_t begin,
                                            std::int64_t end) {
  const ScaledAdamwConstants c = constants;
  std::uint32_t weights = 0, m = 0, v = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const Element after =
        scaled_step<Gradient, Moments>(arrays.weights[i], arrays.m[i], arrays.v[i], arrays.gradients[i], c);
    weights = larger(weights, after.weight);
    m = larger(m, after.m);
    v = larger(v, after.v);
  }
  return {weights, m, v};
}

template <class Gradient, class Moments>
void scaled(const ScaledAdamwArrays<Gradient, Moments>& arrays, const ScaledAdamwConstants& constants,
            const OfAdamwStates<float>& next, std::int64_t begin, std::int64_t end) {
  std::uint16_t* __restrict weights = arrays.weights;
  auto* __restrict m = arrays.m;
  auto* __restrict v = arrays.v;
  const Gradient* __restrict gradients = arrays.gradients;
  const ScaledAdamwConstants c = constants;
  const OfAdamwStates<float> scales = next;
  for (std::int64_t i = begin; i < end; ++i) {
    const Element after = scaled_step<Gradient, Moments>(weights[i], m[i], v[i], gradients[i], c);
    weights[i] = Float16::narrow(after.weight * scales.weights);
    store_first(m[i], after.m * scales.m);
    store_second(v[i], after.v * scales.v);
  }
}

inline std::uint16_t fp16_at_random(float value, float threshold) {
  return Float16::narrow(rounded_at_random<Fp16Format>(value, threshold));
}
inline float first_at_random(const std::uint8_t& /*place*/, float m, std::uint32_t word) {
  return rounded_at_random<E4m3Format>(m, wide_threshold(word));
}
inline float first_at_random(const float& /*place*/, float m, std::uint32_t /*word*/) { return m; }
inline float second_at_random(const std::uint16_t& /*place*/, float v, std::uint32_t word) {
  return second_moment_at_random(v, high_threshold(word));
}
inline float second_at_random(const float& /*place*/, float v, std::uint32_t /*word*/) { return v; }

// Elements [begin, end); `words`: two for each.
template <class Gradient, class Moments>
void scaled_block(const ScaledAdamwArrays<Gradient, Moments>& arrays, const ScaledAdamwConstants& constants,
                  const OfAdamwStates<float>& next, const std::uint32_t* __restrict words, std::int64_t begin,
                  std::int64_t end) {
  std::uint16_t* __restrict weights = arrays.weights + begin;
  auto* __restrict m = arrays.m + begin;
  auto* __restrict v = arrays.v + begin;
  const Gradient* __restrict gradients = arrays.gradients + begin;
  const ScaledAdamwConstants c = constants;
  const OfAdamwStates<float> scales = next;
  for (std::int64_t i = 0; i < end - begin; ++i) {
    const Element after = scaled_step<Gradient, Moments>(weights[i], m[i], v[i], gradients[i], c);
    const std::uint32_t first = words[2 * i], second = words[2 * i + 1];
    weights[i] = fp16_at_random(after.weight * scales.weights, low_threshold(first));
    store_first(m[i], first_at_random(m[i], after.m * scales.m, second));
    store_second(v[i], second_at_random(v[i], after.v * scales.v, first));
  }
}

template <class Gradient, class Moments>
void scaled_at_random(const ScaledAdamwArrays<Gradient, Moments>& arrays, const ScaledAdamwConstants& constants,
                      const OfAdamwStates<float>& next, const StochasticRounding& rounding, std::int64_t begin,
                      std::int64_t end) {
  constexpr int counters = 64;
  std::uint32_t words[4 * counters];
  for (std::int64_t i = begin; i < end;) {
    // The last counter may be needed for one of its two elements alone.
    const RunPart part = run_part(rounding, i, end - i < 2 * counters - 1 ? end - i : 2 * counters - 1);
    const std::int64_t skipped = part.index % 2;
    fill_words(rounding.key, static_cast<std::uint64_t>(part.index / 2),
               static_cast<int>((skipped + part.left + 1) / 2), words);
    scaled_block(arrays, constants, next, words + 2 * skipped, i, i + part.left);
    i += part.left;
  }
}

template <class Moments>
constexpr ScaledAdamwKernelsOf<Moments> scaled_kernels() {
  return {
      {scaled_largest<std::uint8_t, Moments>, scaled<std::uint8_t, Moments>, scaled_at_random<std::uint8_t, Moments>},
      {scaled_largest<float, Moments>, scaled<float, Moments>, scaled_at_random<float, Moments>}};
}

}  // namespace

template <>
AdamwKernels adamw_kernels_for<LLMTRAIN_VECTOR_LEVEL>() {
  return {adamw<float>, adamw<std::uint16_t>, scaled_kernels<SmallMoments>(), scaled_kernels<Fp32Moments>()};
}

}  // namespace llmtrain::kernels::vector
