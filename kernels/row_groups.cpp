// SPDX-License-Identifier: Apache-2.0
#include "kernels/row_groups.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace llmtrain::kernels {
namespace {

// One stable pass of the radix sort over eight bits of the ids: rows of equal ids stay in ascending order.
void sort_by_digit(const std::int64_t* ids, int shift, const std::vector<std::int64_t>& from,
                   std::vector<std::int64_t>& to) {
  const auto digit = [&](std::int64_t row) { return static_cast<std::size_t>((ids[row] >> shift) & 0xFF); };
  std::array<std::int64_t, 257> starts{};
  for (const std::int64_t row : from) ++starts[digit(row) + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  for (const std::int64_t row : from) to[starts[digit(row)]++] = row;
}

}  // namespace

RowGroups group_rows(const std::int64_t* ids, std::int64_t count) {
  RowGroups groups;
  groups.order.resize(count);
  std::iota(groups.order.begin(), groups.order.end(), 0);
  const std::int64_t largest = count == 0 ? 0 : *std::max_element(ids, ids + count);
  std::vector<std::int64_t> other(count);
  // As many passes as the largest id has bytes: two or three for a vocabulary.
  for (int shift = 0; shift < 63 && (largest >> shift) > 0; shift += 8) {
    sort_by_digit(ids, shift, groups.order, other);
    groups.order.swap(other);
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t target = ids[groups.order[k]];
    if (!groups.targets.empty() && groups.targets.back() == target) continue;
    groups.targets.push_back(target);
    groups.offsets.push_back(k);
  }
  groups.offsets.push_back(count);
  return groups;
}

RowGroups group_rows_by_period(std::int64_t count, std::int64_t period) {
  RowGroups groups;
  groups.order.reserve(count);
  for (std::int64_t target = 0; target < std::min(count, period); ++target) {
    groups.targets.push_back(target);
    groups.offsets.push_back(static_cast<std::int64_t>(groups.order.size()));
    // Ascending by construction, so no sort is needed.
    for (std::int64_t row = target; row < count; row += period) groups.order.push_back(row);
  }
  groups.offsets.push_back(count);
  return groups;
}

}  // namespace llmtrain::kernels
