// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// x[t, head, i] is at x + t·token_stride + head·head_stride + i. Tokens are divided among the OpenMP threads.
template <class Element>
struct RopeArrays {
  Element* x;
  const float* cosine;  // [positions, half]
  const float* sine;    // [positions, half]
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t half;  // head_dim / 2
  std::int64_t token_stride;
  std::int64_t head_stride;
  std::int64_t sequence_length;
  float direction;  // 1 rotates forward, −1 back
};

template <class Element>
using RopeLoop = void (*)(const RopeArrays<Element>& arrays);

// Element is float or std::uint16_t (bf16).
template <int level, class Element>
RopeLoop<Element> rope_loop_for();

}  // namespace llmtrain::kernels::vector
