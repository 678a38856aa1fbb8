// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace llmtrain {

// The weights are taken as integer shares of a common sum: the smallest sum up to 65536 that represents them (0.7 and
// 0.3: 7 and 3), else about 2^20, at least one share each (proportions are then exact to one in a million). After a
// period of that many positions every deficit is zero again and the order repeats, so a table of one period answers any
// position in constant time, without rounding.
class Blend {
 public:
  // At least one weight, all of them positive and finite.
  explicit Blend(std::span<const double> weights);

  struct Choice {
    std::size_t source;
    std::int64_t take;  // number of earlier positions that chose this source
  };
  Choice at(std::int64_t position) const;

  std::int64_t period() const { return static_cast<std::int64_t>(table_.size()); }

 private:
  struct Entry {
    std::uint32_t source;
    std::uint32_t take;
  };
  std::vector<std::int64_t> shares_;
  std::vector<Entry> table_;
};

}  // namespace llmtrain
