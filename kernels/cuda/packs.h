// SPDX-License-Identifier: Apache-2.0
// Where packs may be.
#pragma once

#include "kernels/cuda/elements.h"

namespace llmtrain::kernels {

// Null is aligned.
template <class... Pointers>
bool are_aligned_to_packs(Pointers... pointers) {
  return (... && (reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0));
}

}  // namespace llmtrain::kernels
