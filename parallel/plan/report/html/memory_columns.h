// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "parallel/plan/report/html/time_axis.h"
#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {

struct MemoryColumn {
  double x = 0;  // where it starts; it reaches to the next one
  MemoryBytes bytes;
};

// Memory over time in at most `count` columns of equal width: each shows the moment of it in which most is held, so
// that no peak is lost. Columns like the one in front of them are left out. Empty when nothing was recorded.
std::vector<MemoryColumn> memory_columns(const std::vector<MemorySample>& samples, const TimeAxis& axis,
                                         std::size_t count);

}  // namespace llmtrain
