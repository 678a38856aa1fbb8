// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain {

// Elements [begin, end) of flat memory.
struct FlatInterval {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
  bool operator==(const FlatInterval&) const = default;
};

// What two intervals share; empty where they do not meet.
FlatInterval intersection(const FlatInterval& a, const FlatInterval& b);

// Flat memory of `elements`, cut into as many contiguous parts of equal size as ranks share it (Rajbhandari et al.,
// arXiv 1910.02054); the last ones may end in, or be nothing but, padding.
struct FlatShards {
  std::int64_t elements = 0;
  std::int64_t ranks = 1;

  std::int64_t part() const { return (elements + ranks - 1) / ranks; }
  std::int64_t padded() const { return part() * ranks; }
  FlatInterval padded_shard(std::int64_t rank) const { return {rank * part(), (rank + 1) * part()}; }
  FlatInterval shard(std::int64_t rank) const { return intersection(padded_shard(rank), {0, elements}); }
};

}  // namespace llmtrain
