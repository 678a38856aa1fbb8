// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/vector/level.h"
#include "kernels/vector/products/attention.h"

namespace llmtrain::kernels {

// The loops for this processor's level of instructions, which does not change while the program runs.
template <class Value>
const vector::AttentionLoops<Value>& attention_loops() {
  static const auto kernels = vector::at_level([]<int level> { return vector::attention_kernels_for<level>(); });
  if constexpr (std::is_same_v<Value, float>)
    return kernels.fp32;
  else
    return kernels.bf16;
}

}  // namespace llmtrain::kernels
