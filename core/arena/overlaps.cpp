// SPDX-License-Identifier: Apache-2.0
#include "core/arena/overlaps.h"

#include <algorithm>
#include <numeric>

namespace llmtrain {

Overlaps::Overlaps(std::span<const Buffer> buffers)
    : buffers_(buffers), by_first_(buffers.size()), begins_(buffers.size()) {
  std::iota(by_first_.begin(), by_first_.end(), std::size_t{0});
  std::ranges::stable_sort(by_first_, {}, [&](std::size_t i) { return buffers[i].first; });
  std::vector<std::size_t> alive;
  std::size_t begin = 0;
  for (std::size_t place = 0; place < by_first_.size(); ++place) {
    const std::size_t buffer = by_first_[place];
    if (buffers[by_first_[begin]].first != buffers[buffer].first) begin = place;
    begins_[buffer] = begin;
    if (place % stride == 0) {
      std::erase_if(alive, [&](std::size_t i) { return buffers[i].last < buffers[buffer].first; });
      samples_.push_back(alive_.size());
      alive_.insert(alive_.end(), alive.begin(), alive.end());
    }
    alive.push_back(buffer);
  }
  samples_.push_back(alive_.size());
}

}  // namespace llmtrain
