// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/machine/processor.h"

namespace llmtrain::kernels {

// Calls check.operator()<level>() for every compiled instruction-set level that this processor supports, so that a test
// reaches the loops that the dispatch would not select here.
template <class Check>
void at_every_level(Check check) {
#if defined(__x86_64__)
  check.template operator()<2>();
  if (instruction_set_level() >= 3) check.template operator()<3>();
  if (instruction_set_level() >= 4) check.template operator()<4>();
#else
  check.template operator()<0>();
#endif
}

}  // namespace llmtrain::kernels
