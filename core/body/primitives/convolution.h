// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/body/facts.h"

namespace llmtrain::body {

// Convolves images [b, c, height, width], or what has one or three such window axes, with a kernel [o, c, kh, kw] to
// [b, o, …]; the window axes of the result have labels of their own. Kernels of groups read channels of their group
// alone, c ÷ groups of them under another label.
struct Convolution {
  static constexpr const char* name = "convolution";
  // Along each window axis.
  std::vector<std::int64_t> stride{}, padding{}, dilation{};  // none: 1, 0, 1
  std::int64_t groups = 1;

  bool operator==(const Convolution&) const = default;
};

// The same with a number for each of so many window axes.
Convolution along_axes(const Convolution& convolution, std::size_t axes);
// How long the result is along a window axis: 0 where the kernel is longer than the padded operand.
std::int64_t convolved_extent(const Convolution& along_axes, std::size_t axis, std::int64_t extent,
                              std::int64_t kernel_extent);

void check(const Convolution& convolution, const StepShape& shape);
AxisUse axis_use(const Convolution& convolution, const StepShape& shape, AxisId axis);
Work work(const Convolution& convolution, const StepShape& shape);
Kept kept(const Convolution& convolution, const StepShape& shape);

}  // namespace llmtrain::body
