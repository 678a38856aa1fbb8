// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/arena/packing.h"

namespace llmtrain::test {

// What is wrong with a packing, or nothing. Walks through time with the set of what is in use, sorted by offset, and
// looks at the neighbours of what comes: it has nothing in common with how buffers are packed.
inline std::string fault_of(std::span<const Buffer> buffers, const Packing& packing, std::int64_t alignment) {
  if (packing.offsets.size() != buffers.size()) return "another number of offsets than of buffers";
  std::map<std::int64_t, std::vector<std::size_t>> comes, goes;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::int64_t offset = packing.offsets[i];
    if (offset < 0 || offset % alignment != 0) return "an offset that is not aligned";
    if (offset + buffers[i].bytes > packing.height) return "a buffer beyond the top";
    if (buffers[i].bytes == 0) continue;
    comes[buffers[i].first].push_back(i);
    // It is still in use at its last moment.
    goes[buffers[i].last + 1].push_back(i);
  }
  std::map<std::int64_t, std::int64_t> in_use;  // end by begin
  auto gone = goes.begin();
  for (const auto& [moment, coming] : comes) {
    for (; gone != goes.end() && gone->first <= moment; ++gone)
      for (const std::size_t i : gone->second) in_use.erase(packing.offsets[i]);
    for (const std::size_t i : coming) {
      const std::int64_t begin = packing.offsets[i], end = begin + buffers[i].bytes;
      const auto next = in_use.lower_bound(begin);
      if (next != in_use.end() && next->first < end) return "two buffers share bytes";
      if (next != in_use.begin() && std::prev(next)->second > begin) return "two buffers share bytes";
      in_use.emplace(begin, end);
    }
  }
  return "";
}

}  // namespace llmtrain::test
