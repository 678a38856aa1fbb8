// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/flat_shards.h"

#include <algorithm>

namespace llmtrain {

FlatInterval intersection(const FlatInterval& a, const FlatInterval& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace llmtrain
