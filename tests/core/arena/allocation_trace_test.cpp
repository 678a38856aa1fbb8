// SPDX-License-Identifier: Apache-2.0
#include "core/arena/allocation_trace.h"

#include <catch2/catch.hpp>
#include <vector>

namespace llmtrain::test {
namespace {

using Moment = AllocationTrace::Moment;

}  // namespace

TEST_CASE("a buffer lives from its allocation to the last one before it is freed") {
  // Freed after no other allocation, in the next section after its first, and not at all.
  const AllocationTrace trace{{{{10, Moment{0, 1}}, {20, Moment{1, 1}}}, {{30, {}}, {40, Moment{1, 2}}}}};
  CHECK(buffers_of(trace) == std::vector<Buffer>{{10, 0, 0}, {20, 1, 2}, {0, 2, 2}, {40, 3, 3}});
}

TEST_CASE("joined traces hold what either needs, and sections that differ in number are the second's") {
  const AllocationTrace first{{{{10, Moment{0, 2}}, {50, Moment{0, 2}}}, {{5, {}}, {7, Moment{1, 2}}}, {{9, {}}}}};
  const AllocationTrace second{{{{20, Moment{0, 1}}, {40, Moment{2, 1}}}, {{6, Moment{1, 1}}}, {{8, Moment{2, 1}}}}};
  const AllocationTrace both = joined(first, second);
  CHECK(buffers_of(both) == std::vector<Buffer>{{20, 0, 1}, {50, 1, 3}, {6, 2, 2}, {0, 3, 3}});
  CHECK(buffers_of(joined({}, second)) == buffers_of(second));
}

}  // namespace llmtrain::test
