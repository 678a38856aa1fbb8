// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/base/collective.h"
#include "core/base/element_type.h"

namespace llmtrain {

// destinations[d][i] = sources[0][i] ⊕ sources[1][i] ⊕ … for all i below `count` and all d, in this order and in fp32
// for the 16-bit and 8-bit floating types, rounded once. Single-threaded. A destination may be identical to a source
// but not overlap one otherwise. No alignment is required.
struct ReductionTask {
  ElementType type = ElementType::float32;
  Reduction reduction = Reduction::sum;
  std::span<const void* const> sources;
  std::span<void* const> destinations;
  std::int64_t count = 0;
};
void reduce_in_order(const ReductionTask& task);

}  // namespace llmtrain
