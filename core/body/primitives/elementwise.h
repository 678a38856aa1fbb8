// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

enum class ElementwiseKind {
  add,  // of two or more
  multiply,
  scale,  // by a factor
  relu,
  gelu,       // x·Φ(x) (Hendrycks and Gimpel, arXiv 1606.08415)
  gelu_tanh,  // its tanh approximation
  silu,
  sigmoid,
  tanh,
  exp,
  log,
  swiglu,  // silu(gate)·up of gate and up (Shazeer, arXiv 2002.05202)
};

// The result has the axes of the first operand. Others of a sum or a product may lack some of them, along which they
// are repeated.
struct Elementwise {
  static constexpr const char* name = "elementwise";
  ElementwiseKind kind = ElementwiseKind::add;
  double factor = 1;  // of scale

  bool operator==(const Elementwise&) const = default;
};

void check(const Elementwise& elementwise, const StepShape& shape);
AxisUse axis_use(const Elementwise& elementwise, const StepShape& shape, AxisId axis);
Work work(const Elementwise& elementwise, const StepShape& shape);
Kept kept(const Elementwise& elementwise, const StepShape& shape);

}  // namespace llmtrain::body
