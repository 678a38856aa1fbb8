// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/arena/buffer.h"

namespace llmtrain {

// Which of many buffers are alive together with one, in time in proportion to their number. Memory is in proportion to
// the buffers, and to a 64th of those alive at each first use.
class Overlaps {
 public:
  explicit Overlaps(std::span<const Buffer> buffers);

  // Calls visit(index) for every other buffer that is alive at a moment at which this one is, each once, in an order
  // that depends on the buffers alone.
  template <class Visit>
  void visit(std::size_t buffer, Visit visit) const {
    const Buffer& own = buffers_[buffer];
    const std::size_t begin = begins_[buffer];
    const std::size_t sample = begin / stride;
    const auto visit_alive = [&](std::size_t other) {
      if (other != buffer && buffers_[other].last >= own.first) visit(other);
    };
    for (std::size_t i = samples_[sample]; i < samples_[sample + 1]; ++i) visit_alive(alive_[i]);
    std::size_t next = sample * stride;
    for (; next < begin; ++next) visit_alive(by_first_[next]);
    for (; next < by_first_.size() && buffers_[by_first_[next]].first <= own.last; ++next)
      if (by_first_[next] != buffer) visit(by_first_[next]);
  }

 private:
  static constexpr std::size_t stride = 64;

  std::span<const Buffer> buffers_;
  std::vector<std::size_t> by_first_;  // indexes of buffers in the order of their first use
  std::vector<std::size_t> begins_;    // of each buffer: where the first of its moment is in that order
  // Every 64 places of it: those before it that are alive at its first use or later, one list after another.
  std::vector<std::size_t> alive_;
  std::vector<std::size_t> samples_;  // where each list begins, and the last ends
};

}  // namespace llmtrain
