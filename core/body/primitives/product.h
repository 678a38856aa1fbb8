// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

// Sums over the axes that the result lacks of the products of two tensors: linear layers, scores, weighted sums. An
// axis of both operands and of the result counts products; each other axis of an operand is in the result.
struct Product {
  static constexpr const char* name = "product";

  bool operator==(const Product&) const = default;
};

void check(const Product& product, const StepShape& shape);
AxisUse axis_use(const Product& product, const StepShape& shape, AxisId axis);
Work work(const Product& product, const StepShape& shape);
Kept kept(const Product& product, const StepShape& shape);

// What all that multiplies two operands has in common, such as a convolution. The gradient of one operand is a product
// with the other, as large as that of the forward.
Work work_of_products(const ProductSize& size, const StepShape& shape);
Kept kept_operands(const StepShape& shape);

}  // namespace llmtrain::body
