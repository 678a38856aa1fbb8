// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace llmtrain {

// Elements [begin, end) of flat memory.
struct FlatInterval {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
  bool operator==(const FlatInterval&) const = default;
};

// The common elements of two intervals; empty if they do not overlap.
inline FlatInterval intersection(const FlatInterval& a, const FlatInterval& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Flat memory of `elements`, cut into one contiguous part of equal size per rank (Rajbhandari et al., arXiv
// 1910.02054); the last parts may end in padding or consist of it.
struct FlatShards {
  std::int64_t elements = 0;
  std::int64_t ranks = 1;

  std::int64_t part() const { return (elements + ranks - 1) / ranks; }
  std::int64_t padded() const { return part() * ranks; }
  FlatInterval padded_shard(std::int64_t rank) const { return {rank * part(), (rank + 1) * part()}; }
  FlatInterval shard(std::int64_t rank) const { return intersection(padded_shard(rank), {0, elements}); }
};

}  // namespace llmtrain
