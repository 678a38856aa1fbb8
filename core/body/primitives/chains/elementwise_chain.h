// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/body/facts.h"
#include "core/body/primitives/elementwise.h"

namespace llmtrain::body {

// Element-wise functions of one tensor, each of what the one before made, as one step: forward it computes the chain's
// derivative beside its value, as dual numbers do (nested forward differentiation, arXiv 2209.10778), and keeps that
// alone. core/body/passes makes chains of a body's steps.
struct ElementwiseChain {
  static constexpr const char* name = "elementwise_chain";
  std::vector<Elementwise> links{};  // the first is of the operand; none takes two tensors

  bool operator==(const ElementwiseChain&) const = default;
};

// Whether it is a function of one tensor.
bool is_of_one(const Elementwise& elementwise);

void check(const ElementwiseChain& chain, const StepShape& shape);
AxisUse axis_use(const ElementwiseChain& chain, const StepShape& shape, AxisId axis);
Work work(const ElementwiseChain& chain, const StepShape& shape);
Kept kept(const ElementwiseChain& chain, const StepShape& shape);

}  // namespace llmtrain::body
