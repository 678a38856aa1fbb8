// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain::kernels::vector {

// Loops in this folder are compiled once per instruction-set level (x86-64-v2, v3 and v4; elsewhere one level, 0) and
// chosen at start-up, so that one program is fast on every node of a mixed cluster. Sources see their own level as
// LLMTRAIN_VECTOR_LEVEL and define explicit specialisations for it. Everything else in them is in unnamed namespaces,
// and they include no header with inline functions that other sources use: of several copies of such a function the
// linker keeps one, possibly one that this processor cannot run.

// The highest level that was compiled and that this processor supports. LLMTRAIN_VECTOR_LEVEL in the environment lowers
// it.
int level();

// Calls `choose.template operator()<level>()` for the level of this processor.
template <class Choose>
auto at_level(Choose choose) {
#if defined(__x86_64__)
  switch (level()) {
    case 4:
      return choose.template operator()<4>();
    case 3:
      return choose.template operator()<3>();
    default:
      return choose.template operator()<2>();
  }
#else
  return choose.template operator()<0>();
#endif
}

}  // namespace llmtrain::kernels::vector
