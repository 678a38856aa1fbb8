// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/body/facts.h"

namespace llmtrain::body {

enum class NormKind {
  layer,             // Ba et al., arXiv 1607.06450
  root_mean_square,  // Zhang and Sennrich, arXiv 1910.07467: without mean
  group,             // Wu and He, arXiv 1803.08494: of images
};

// Norms each row of x along the last axis, and multiplies it by a weight of that axis; layer norms may add a bias.
// Group norms are of [b, c, …], each sample's channels in groups, with all that follows the channels; weight and bias
// are of the channels.
struct Norm {
  static constexpr const char* name = "norm";
  NormKind kind = NormKind::layer;
  double epsilon = 1e-5;
  std::int64_t groups = 1;  // of group norms

  bool operator==(const Norm&) const = default;
};

void check(const Norm& norm, const StepShape& shape);
AxisUse axis_use(const Norm& norm, const StepShape& shape, AxisId axis);
Work work(const Norm& norm, const StepShape& shape);
Kept kept(const Norm& norm, const StepShape& shape);

}  // namespace llmtrain::body
