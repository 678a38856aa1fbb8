// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// A [rows, width] array of outputs; the inputs of swiglu are twice as wide (kernels/activation.h). Rows are divided
// among the OpenMP threads. Inputs and outputs do not overlap.
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
  ActivationPasses<Element> swiglu;
};

// Element is float or std::uint16_t (bf16).
template <int level, class Element>
ActivationKernels<Element> activation_kernels_for();

}  // namespace llmtrain::kernels::vector
