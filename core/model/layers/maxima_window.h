// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace llmtrain {

// The newest rows of numbers that are at least 0, as many as it has room for, and the largest number of each column. A
// new row costs the same however many rows there are: rows lie in twice the memory, in which the newest goes in front
// of the others, and once per turn they move to the back, where the largest of the first 1, 2, 3, … are kept (van Herk,
// Pattern Recognition Letters 13, 1992).
class MaximaWindow {
 public:
  // All zeros at first.
  MaximaWindow(std::size_t rows, std::size_t columns);

  // The rows, one after another, the newest first. At the same address until the next change.
  std::span<const float> newest_first() const { return {numbers_.data() + begin_, numbers_.size() / 2}; }
  // Takes what newest_first() had said, as far as there is room; missing rows are zeros.
  void assign(std::span<const float> newest_first);

  void push(std::span<const float> row);
  float largest(std::size_t column) const;

 private:
  // Keeps the largest of the rows at the back, which are all.
  void count_back();

  std::size_t columns_;
  std::vector<float> numbers_;
  std::size_t begin_;            // of the newest row
  std::vector<float> back_;      // row i: the largest numbers of the first i + 1 rows of the back
  std::vector<float> in_front_;  // of the rows in front
};

}  // namespace llmtrain
