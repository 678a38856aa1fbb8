// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace llmtrain::kernels {

// Rows grouped by the target that they add to: targets[g] receives the rows order[offsets[g]] … order[offsets[g+1] −
// 1], in ascending order. Targets ascend and each occurs once.
struct RowGroups {
  std::vector<std::int64_t> targets;
  std::vector<std::int64_t> offsets;  // one more than targets
  std::vector<std::int64_t> order;
};

// Row t adds to target ids[t] ≥ 0. A radix sort: linear in count, whatever the largest id.
RowGroups group_rows(const std::int64_t* ids, std::int64_t count);

// Row t adds to target t mod period.
RowGroups group_rows_by_period(std::int64_t count, std::int64_t period);

}  // namespace llmtrain::kernels
