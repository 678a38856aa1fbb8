// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

// X of L·X = B, for a lower triangle L [..., r, c] and B [..., r, columns...], whose axes before r are those of L: c
// takes the place of r. Elements of L above its diagonal are not read. Computed in fp32 at least.
struct TriangularSolve {
  static constexpr const char* name = "triangular_solve";

  bool operator==(const TriangularSolve&) const = default;
};

void check(const TriangularSolve& solve, const StepShape& shape);
AxisUse axis_use(const TriangularSolve& solve, const StepShape& shape, AxisId axis);
Work work(const TriangularSolve& solve, const StepShape& shape);
Kept kept(const TriangularSolve& solve, const StepShape& shape);

}  // namespace llmtrain::body
