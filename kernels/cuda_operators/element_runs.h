// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmtrain::kernels {

// Consecutive elements of a tensor that are consecutive in the unsharded one, too.
struct ElementRun {
  std::int64_t offset = 0;
  std::int64_t length = 0;
  std::int64_t first_element = 0;  // in the unsharded tensor
};

// Calls work(first run, how many, how far they are apart in the unsharded tensor) for runs that are alike: of one
// length, and each as far from the one before it. The runs are all of a tensor in their order.
template <class Work>
void for_alike(const std::vector<ElementRun>& runs, Work work) {
  const auto distance = [&](std::size_t i) { return runs[i].first_element - runs[i - 1].first_element; };
  for (std::size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    end = begin + 1;
    while (end < runs.size() && runs[end].length == runs[begin].length && distance(end) == distance(begin + 1)) ++end;
    const auto count = static_cast<std::int64_t>(end - begin);
    work(runs[begin], count, count > 1 ? distance(begin + 1) : 0);
  }
}

}  // namespace llmtrain::kernels
