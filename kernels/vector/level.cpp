// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/level.h"

#include <algorithm>
#include <cstdlib>

#include "core/machine/processor.h"

namespace llmtrain::kernels::vector {

int level() {
  static const int chosen = [] {
    // For tests of every level on one machine: it can only lower the level.
    const char* wanted = std::getenv("LLMTRAIN_VECTOR_LEVEL");
    const int supported = instruction_set_level();
    return wanted == nullptr ? supported : std::min(supported, std::max(std::atoi(wanted), 2));
  }();
  return chosen;
}

}  // namespace llmtrain::kernels::vector
