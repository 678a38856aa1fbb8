// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/device/language.h"

namespace llmtrain::kernels {

// How many of the `count` numbers, in ascending order, are at most `value`: of the places at which parts of an array
// end, the number of the part that has element `value`.
template <class Numbers>
__device__ __forceinline__ std::int64_t count_until(const Numbers& numbers, std::int64_t count, std::int64_t value) {
  std::int64_t low = 0, high = count;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (numbers[middle] <= value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace llmtrain::kernels
