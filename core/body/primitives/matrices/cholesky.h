// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

// The lower triangle L with L·Lᵀ = A + jitter·1 of symmetric positive definite matrices A [..., r, c], whose elements
// below the diagonal are read; axes before the last two count matrices. The gradient is the symmetric one, half of it
// on either side of the diagonal (Murray, arXiv 1602.07527, equation 10). Computed in fp32 at least.
struct Cholesky {
  static constexpr const char* name = "cholesky";
  double jitter = 0;  // added to the diagonal: 0 or more

  bool operator==(const Cholesky&) const = default;
};

void check(const Cholesky& cholesky, const StepShape& shape);
AxisUse axis_use(const Cholesky& cholesky, const StepShape& shape, AxisId axis);
Work work(const Cholesky& cholesky, const StepShape& shape);
Kept kept(const Cholesky& cholesky, const StepShape& shape);

}  // namespace llmtrain::body
