// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "core/arena/buffer.h"

namespace llmtrain {

// What one step allocated and freed, in sections, such as its instructions: where a section allocates another number of
// times than in the step before, the places of later sections stay the same.
struct AllocationTrace {
  // After so many allocations of a section.
  struct Moment {
    std::size_t section = 0, allocations = 0;

    bool operator==(const Moment&) const = default;
    bool operator<(const Moment& other) const {
      return std::tie(section, allocations) < std::tie(other.section, other.allocations);
    }
  };
  struct Allocation {
    std::int64_t bytes = 0;
    std::optional<Moment> freed;  // none: it is there when the step ends
  };

  std::vector<std::vector<Allocation>> sections;
};

// The trace of a step that holds what both need: of sections with as many allocations in both, sizes and lives are the
// larger of the two; other sections, and all if their numbers differ, are the second's.
AllocationTrace joined(const AllocationTrace& first, AllocationTrace second);

// All allocations in their order, their moments counted in allocations of the whole step. What outlives the step has no
// bytes.
std::vector<Buffer> buffers_of(const AllocationTrace& trace);

}  // namespace llmtrain
