// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/body.h"

namespace llmtrain::body {

// What an order of products is chosen for.
enum class ProductCost {
  flops,     // the fewest operations of the forward
  elements,  // the fewest elements of results on the way, at equal ones the fewest operations
};

// The body with products of products in the order that costs least: (A·B)·v as A·(B·v). Products whose results another
// product alone reads are multiplied in any order, which dynamic programming over subsets of their operands finds
// (Godbole, 1973, of chains; Artemev et al., arXiv 2206.14148, section 3.2, of programs; Pfeifer et al., arXiv
// 1304.6112, of tensors with labelled axes). Of more than 12 operands the order stays. Results are the same but for
// rounding; outputs keep their names.
Body with_least_products(const Body& body, ProductCost cost);

}  // namespace llmtrain::body
