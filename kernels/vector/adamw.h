// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/optimizer/adamw_constants.h"
#include "kernels/random/stochastic_rounding.h"

namespace llmtrain::kernels::vector {

template <class Gradient>
struct AdamwArrays {
  float* weights;
  float* m;
  float* v;
  const Gradient* gradients;
  std::uint16_t* compute_weights;  // bf16; null when not wanted
};

// The types of moments beside weights in small types.
struct SmallMoments {
  using First = std::uint8_t;    // E4M3
  using Second = std::uint16_t;  // fp16
};
struct Fp32Moments {
  using First = float;
  using Second = float;
};

// States in small types: value = payload · the reciprocal of its scale, a power of two.
template <class Gradient, class Moments>
struct ScaledAdamwArrays {
  std::uint16_t* weights;  // fp16
  typename Moments::First* m;
  typename Moments::Second* v;
  const Gradient* gradients;
};

struct ScaledAdamwConstants {
  AdamwConstants step;
  float weights, m, v, gradients;  // reciprocals of the scales
};

// One number of each: a scale, or the bits of a magnitude, which order as the magnitudes do.
template <class Number>
struct OfAdamwStates {
  Number weights, m, v;
};

// Gradient is std::uint8_t (E4M3) or float.
template <class Gradient, class Moments>
struct ScaledAdamwKernels {
  using Arrays = ScaledAdamwArrays<Gradient, Moments>;
  // The largest magnitudes that the step would leave.
  OfAdamwStates<std::uint32_t> (*largest)(const Arrays& arrays, const ScaledAdamwConstants& constants,
                                          std::int64_t begin, std::int64_t end);
  // The step; stores with the scales `next`.
  void (*step)(const Arrays& arrays, const ScaledAdamwConstants& constants, const OfAdamwStates<float>& next,
               std::int64_t begin, std::int64_t end);
  // The same, but rounds what it stores in small types at random.
  void (*random_step)(const Arrays& arrays, const ScaledAdamwConstants& constants, const OfAdamwStates<float>& next,
                      const StochasticRounding& rounding, std::int64_t begin, std::int64_t end);
};

template <class Moments>
struct ScaledAdamwKernelsOf {
  ScaledAdamwKernels<std::uint8_t, Moments> e4m3;  // by the gradients' type
  ScaledAdamwKernels<float, Moments> fp32;
};

// Updates elements [begin, end).
struct AdamwKernels {
  void (*fp32)(const AdamwArrays<float>& arrays, const AdamwConstants& constants, std::int64_t begin, std::int64_t end);
  void (*bf16)(const AdamwArrays<std::uint16_t>& arrays, const AdamwConstants& constants, std::int64_t begin,
               std::int64_t end);
  ScaledAdamwKernelsOf<SmallMoments> small_moments;
  ScaledAdamwKernelsOf<Fp32Moments> fp32_moments;
};

template <int level>
AdamwKernels adamw_kernels_for();

}  // namespace llmtrain::kernels::vector
