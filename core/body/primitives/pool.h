// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/body/facts.h"

namespace llmtrain::body {

enum class PoolKind { max, average };

// The largest or the mean element of each window of images [b, c, height, width]; the window axes of the result have
// labels of their own. Elements of the padding are none, so that means have no padding.
struct Pool {
  static constexpr const char* name = "pool";
  PoolKind kind = PoolKind::max;
  std::array<std::int64_t, 2> window{1, 1}, stride{1, 1}, padding{0, 0};

  bool operator==(const Pool&) const = default;
};

// How long the result is along one of the two window axes.
std::int64_t pooled_extent(const Pool& pool, std::size_t axis, std::int64_t extent);

void check(const Pool& pool, const StepShape& shape);
AxisUse axis_use(const Pool& pool, const StepShape& shape, AxisId axis);
Work work(const Pool& pool, const StepShape& shape);
Kept kept(const Pool& pool, const StepShape& shape);

}  // namespace llmtrain::body
