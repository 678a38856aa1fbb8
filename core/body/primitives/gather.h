// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

// Rows of a table [v, h] by their numbers, of any axes, to which h is added: a field of int64, as of embeddings and of
// tokens that are looked at, or places that Smallest makes.
struct Gather {
  static constexpr const char* name = "gather";

  bool operator==(const Gather&) const = default;
};

void check(const Gather& gather, const StepShape& shape);
AxisUse axis_use(const Gather& gather, const StepShape& shape, AxisId axis);
Work work(const Gather& gather, const StepShape& shape);
Kept kept(const Gather& gather, const StepShape& shape);

}  // namespace llmtrain::body
