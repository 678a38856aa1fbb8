// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "parallel/plan/report/html/time_axis.h"
#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {

struct MemoryColumn {
  double x = 0;  // left edge; the column extends to the next one
  MemoryBytes bytes;
};

// Memory over time in at most `count` columns of equal width: each shows its moment of highest total, so that no peak
// is lost. Columns equal to their predecessor are left out. Empty if nothing was recorded.
std::vector<MemoryColumn> memory_columns(const std::vector<MemorySample>& samples, const TimeAxis& axis,
                                         std::size_t count);

}  // namespace llmtrain
