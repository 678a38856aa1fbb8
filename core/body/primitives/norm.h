// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

enum class NormKind {
  layer,             // Ba et al., arXiv 1607.06450
  root_mean_square,  // Zhang and Sennrich, arXiv 1910.07467: without mean
};

// Norms each row of x along the last axis, and multiplies it by a weight of that axis; layer norms may add a bias.
struct Norm {
  static constexpr const char* name = "norm";
  NormKind kind = NormKind::layer;
  double epsilon = 1e-5;
};

void check(const Norm& norm, const StepShape& shape);
AxisUse axis_use(const Norm& norm, const StepShape& shape, AxisId axis);
Work work(const Norm& norm, const StepShape& shape);
Kept kept(const Norm& norm, const StepShape& shape);

}  // namespace llmtrain::body
