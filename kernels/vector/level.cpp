// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/level.h"

#include <algorithm>
#include <cstdlib>

namespace llmtrain::kernels::vector {
namespace {

// v4 has AVX-512, v3 AVX2 and FMA, v2 SSE4.2.
int supported_level() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4")) return 4;
  if (__builtin_cpu_supports("x86-64-v3")) return 3;
  return 2;
#else
  return 0;
#endif
}

}  // namespace

int level() {
  static const int chosen = [] {
    // For tests of every level on one machine: it can only lower the level.
    const char* wanted = std::getenv("LLMTRAIN_VECTOR_LEVEL");
    return wanted == nullptr ? supported_level() : std::min(supported_level(), std::max(std::atoi(wanted), 2));
  }();
  return chosen;
}

}  // namespace llmtrain::kernels::vector
