// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/body/facts.h"

namespace llmtrain::body {

// The same elements in other places, or more than once.
struct Rearrange {
  static constexpr const char* name = "rearrange";
  enum class Kind {
    permute,  // the operand's axes in another order
    merge,    // `parts`, which lie next to each other, become `whole`: [b, s, h] to [t, h]
    split,    // and back
    slice,    // of `whole` the elements from `begin` on, as many as parts[0], which stands in its place, is long
    repeat,   // once for each element of `whole`, which the operand lacks, and which becomes the outermost axis
  };
  Kind kind = Kind::permute;
  AxisId whole = 0;
  std::vector<AxisId> parts{};
  std::int64_t begin = 0;

  bool operator==(const Rearrange&) const = default;
};

// The axes of the result for an operand with these; none where it lacks what is rearranged, or has it not side by side.
// A permutation says nothing of its result.
std::vector<AxisId> rearranged(const Rearrange& rearrange, const std::vector<AxisId>& axes);
// Whether the result may lie in the operand's memory; a slice is copied, unless it is all of its axis, so that who
// keeps it does not keep the whole.
bool is_view(const Rearrange& rearrange, const StepShape& shape);
void check(const Rearrange& rearrange, const StepShape& shape);
AxisUse axis_use(const Rearrange& rearrange, const StepShape& shape, AxisId axis);
Work work(const Rearrange& rearrange, const StepShape& shape);
Kept kept(const Rearrange& rearrange, const StepShape& shape);

}  // namespace llmtrain::body
