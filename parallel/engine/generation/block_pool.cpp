// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/block_pool.h"

#include <numeric>
#include <string>

#include "core/base/error.h"

namespace llmtrain {

BlockPool::BlockPool(std::int64_t blocks) : blocks_(blocks), free_(static_cast<std::size_t>(blocks)) {
  std::iota(free_.rbegin(), free_.rend(), std::int64_t{0});
}

std::vector<std::int64_t> BlockPool::lend(std::int64_t count) {
  if (count > free())
    throw Error(ExitCode::internal_error,
                "cache: " + std::to_string(count) + " blocks asked for, where " + std::to_string(free()) + " are free");
  const std::vector<std::int64_t> lent(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - lent.size());
  return lent;
}

void BlockPool::take_back(std::vector<std::int64_t>& table) {
  free_.insert(free_.end(), table.rbegin(), table.rend());
  table.clear();
}

}  // namespace llmtrain
