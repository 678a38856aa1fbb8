// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/chains/elementwise_chain.h"

#include <algorithm>

#include "core/body/step_shape.h"

namespace llmtrain::body {

bool is_of_one(const Elementwise& elementwise) {
  switch (elementwise.kind) {
    case ElementwiseKind::add:
    case ElementwiseKind::multiply:
    case ElementwiseKind::swiglu:
      return false;
    case ElementwiseKind::scale:
    case ElementwiseKind::relu:
    case ElementwiseKind::gelu:
    case ElementwiseKind::gelu_tanh:
    case ElementwiseKind::silu:
    case ElementwiseKind::sigmoid:
    case ElementwiseKind::tanh:
    case ElementwiseKind::exp:
    case ElementwiseKind::log:
      return true;
  }
  return false;
}

void check(const ElementwiseChain& chain, const StepShape& shape) {
  shape.require_inputs(1, 1);
  if (chain.links.empty() || !std::ranges::all_of(chain.links, is_of_one))
    shape.refuse("a chain is of functions of one tensor");
  if (shape.output().axes != shape.input(0).axes) shape.refuse("the result has the operand's axes");
}

AxisUse axis_use(const ElementwiseChain& /*chain*/, const StepShape& /*shape*/, AxisId /*axis*/) {
  return AxisUse::independent;
}

// Each link reads and writes the value and the derivative; what it has made of both is there with what it reads.
Work work(const ElementwiseChain& chain, const StepShape& shape) {
  const double elements = shape.output_elements(), links = static_cast<double>(chain.links.size());
  return {.forward_elements = 5 * links * elements, .backward_elements = 3 * elements, .forward_working = 2 * elements};
}

Kept kept(const ElementwiseChain& /*chain*/, const StepShape& shape) {
  if (!shape.output().has_gradient) return {};
  return {.statistics = {{"derivative", shape.output_elements(), Statistic::Type::computed, true}}};
}

}  // namespace llmtrain::body
