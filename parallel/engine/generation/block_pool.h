// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace llmtrain {

// The blocks of a KeyValueCache that no sequence has. Blocks that were given back last are lent first, so that memory
// which nobody has touched yet stays so.
class BlockPool {
 public:
  explicit BlockPool(std::int64_t blocks);

  std::int64_t blocks() const { return blocks_; }
  std::int64_t free() const { return static_cast<std::int64_t>(free_.size()); }

  // `count` blocks, which must be free.
  std::vector<std::int64_t> lend(std::int64_t count);
  // Takes the table's blocks back and leaves it empty.
  void take_back(std::vector<std::int64_t>& table);

 private:
  std::int64_t blocks_;
  std::vector<std::int64_t> free_;  // the next to be lent is last
};

}  // namespace llmtrain
