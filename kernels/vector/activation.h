// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// What bounds gate and up of clamped_swiglu, and the factor within its logistic function.
constexpr double clamped_swiglu_limit = 7, clamped_swiglu_steepness = 1.702;

// A [rows, width] array of outputs; the inputs of what has a gate are twice as wide (kernels/activation.h). Rows are
// divided among the OpenMP threads. Inputs and outputs do not overlap.
template <class Element>
struct ActivationArrays {
  const Element* dy;  // backward only
  const Element* x;
  Element* out;
  std::int64_t rows;
  std::int64_t width;
};

template <class Element>
using ActivationLoop = void (*)(const ActivationArrays<Element>& arrays);

template <class Element>
struct ActivationPasses {
  ActivationLoop<Element> forward;
  ActivationLoop<Element> backward;
};

template <class Element>
struct ActivationKernels {
  ActivationPasses<Element> gelu;
  ActivationPasses<Element> gelu_tanh;
  ActivationPasses<Element> relu;
  ActivationPasses<Element> squared_relu;
  ActivationPasses<Element> swiglu;
  ActivationPasses<Element> geglu;
  ActivationPasses<Element> geglu_tanh;
  ActivationPasses<Element> clamped_swiglu;
};

// Element is float or std::uint16_t (bf16).
template <int level, class Element>
ActivationKernels<Element> activation_kernels_for();

}  // namespace llmtrain::kernels::vector
