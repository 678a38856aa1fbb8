// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/rope.h"

#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

// Elements below which starting a second thread costs more than it saves.
constexpr std::int64_t least_parallel_elements = 16384;

template <class Element>
void rotate_head(Element* __restrict low, Element* __restrict high, const float* __restrict cosine,
                 const float* __restrict sine, std::int64_t half, float direction) {
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = to_float(low[i]);
    const float b = to_float(high[i]);
    // The inverse rotation has the same cosine and the negative sine.
    const float s = direction * sine[i];
    store(low[i], multiply_add(a, cosine[i], -(b * s)));
    store(high[i], multiply_add(b, cosine[i], a * s));
  }
}

template <class Element>
void rope(const RopeArrays<Element>& arrays) {
#pragma omp parallel for schedule(static) if (arrays.tokens * arrays.heads * arrays.half >= least_parallel_elements)
  for (std::int64_t token = 0; token < arrays.tokens; ++token) {
    const std::int64_t angles = token % arrays.sequence_length * arrays.half;
    // All heads of a token have the same angles, which stay in the cache.
    for (std::int64_t head = 0; head < arrays.heads; ++head) {
      Element* low = arrays.x + token * arrays.token_stride + head * arrays.head_stride;
      rotate_head(low, low + arrays.half, arrays.cosine + angles, arrays.sine + angles, arrays.half, arrays.direction);
    }
  }
}

}  // namespace

template <>
RopeLoop<float> rope_loop_for<LLMTRAIN_VECTOR_LEVEL, float>() {
  return rope<float>;
}

template <>
RopeLoop<std::uint16_t> rope_loop_for<LLMTRAIN_VECTOR_LEVEL, std::uint16_t>() {
  return rope<std::uint16_t>;
}

}  // namespace llmtrain::kernels::vector
