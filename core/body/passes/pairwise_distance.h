// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/body.h"

namespace llmtrain::body {

// The body with squared distances of all pairs, the sum over d of (x[n, d] − y[m, d])², as Σx² + Σy² − 2·x·yᵀ (Artemev
// et al., arXiv 2206.14148, section 3.1): nothing of [m, n, d] elements is made any more. Those are found that repeat x
// along m, add y by −1, multiply the sum with itself and sum it up, where nothing else reads what is made on the way.
// Distances of points that are close, next to their lengths, lose digits by it, and may come out below 0.
Body with_products_of_pairs(const Body& body);

}  // namespace llmtrain::body
