// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace llmtrain {

// Over how many ranks so many things may be split evenly, from 1 on; none of 0.
inline std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) found.push_back(divisor);
  return found;
}

}  // namespace llmtrain
