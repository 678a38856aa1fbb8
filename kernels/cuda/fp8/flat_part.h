// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels {

// Elements [begin, end) of flat arrays, such as a tensor or a part of one, and which of the tensors' numbers is theirs.
struct FlatPart {
  std::int64_t begin = 0, end = 0;
  std::int64_t number = 0;
};

}  // namespace llmtrain::kernels
