// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

// Sums over the axes that the result lacks of the products of two tensors: linear layers, scores, weighted sums. An
// axis of both operands and of the result counts products; each other axis of an operand is in the result.
struct Product {
  static constexpr const char* name = "product";
};

void check(const Product& product, const StepShape& shape);
AxisUse axis_use(const Product& product, const StepShape& shape, AxisId axis);
Work work(const Product& product, const StepShape& shape);
Kept kept(const Product& product, const StepShape& shape);

}  // namespace llmtrain::body
