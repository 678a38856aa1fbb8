// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulated {

// How far each stream is known to have come (a vector clock). A stream's timeline is its id; 0 is unused.
class Clock {
 public:
  std::uint64_t at(std::size_t timeline) const { return timeline < times_.size() ? times_[timeline] : 0; }

  std::uint64_t advance(std::size_t timeline) {
    if (times_.size() <= timeline) times_.resize(timeline + 1);
    return ++times_[timeline];
  }

  // Afterwards what either knew is known.
  void join(const Clock& other) {
    if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
    for (std::size_t i = 0; i < other.times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
  }

 private:
  std::vector<std::uint64_t> times_;
};

}  // namespace emulated
