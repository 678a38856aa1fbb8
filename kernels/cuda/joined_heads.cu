// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/rotation.h"
#include "kernels/cuda/device/row_tiles.h"
#include "kernels/cuda/joined_heads_kernels.h"

namespace llmtrain::kernels {
namespace {

template <class T>
struct Heads {
  const T* x;
  std::int64_t token_stride, head_stride;
};

template <class T>
struct Joined {
  Heads<T> query, key, value;
  T* joined;
  std::int64_t heads;  // of all three
  const float* cosine;
  const float* sine;
  RowTiles tiles;  // a row has a token's units: [heads of all three, unit]
  unsigned half;
  unsigned unit;  // of a head: its pairs, which are rotated together, or its elements where nothing is
  unsigned queries, queries_and_keys;
  unsigned sequence_length;
};

template <class T, int size, bool rotates>
__global__ void __launch_bounds__(row_tile_threads) joined_heads_kernel(Joined<T> p) {
  using Elements = Pack<T, size>;
  over_tiles<size>(p.tiles, [&](std::int64_t token, int place) {
    const unsigned head = static_cast<unsigned>(place) / p.unit, column = static_cast<unsigned>(place) - head * p.unit;
    const bool is_value = head >= p.queries_and_keys, is_key = !is_value && head >= p.queries;
    const Heads<T>& from = is_value ? p.value : is_key ? p.key : p.query;
    const unsigned first = is_value ? p.queries_and_keys : is_key ? p.queries : 0;
    const T* const x = from.x + token * from.token_stride + (head - first) * from.head_stride + column;
    T* const y = p.joined + (token * p.heads + head) * 2 * p.half + column;
    Elements low = *reinterpret_cast<const Elements*>(x);
    if constexpr (!rotates) {
      *reinterpret_cast<Elements*>(y) = low;
      return;
    }
    Elements high = *reinterpret_cast<const Elements*>(x + p.half);
    if (!is_value) {
      const unsigned position = static_cast<unsigned>(token) % p.sequence_length;
      const std::int64_t angles = static_cast<std::int64_t>(position) * p.half + column;
      rotate_pairs(low, high, p.cosine + angles, p.sine + angles, -1);
    }
    *reinterpret_cast<Elements*>(y) = low;
    *reinterpret_cast<Elements*>(y + p.half) = high;
  });
}

template <class T>
Heads<T> heads_of(const HeadsOperand& a) {
  return {static_cast<const T*>(a.x), a.token_stride, a.head_stride};
}

// From the first element to the last; what lies between heads or tokens counts as well.
template <class T>
MemoryUse read_of(const HeadsOperand& a, const JoinedHeadsArguments& all) {
  const std::int64_t span = (all.tokens - 1) * a.token_stride + (a.heads - 1) * a.head_stride + 2 * all.half;
  return reads(static_cast<const T*>(a.x), static_cast<std::size_t>(span));
}

template <class T, int size, bool rotates>
void start(const JoinedHeadsArguments& a, void* stream) {
  const int heads = a.query.heads + a.key.heads + a.value.heads;
  const std::int64_t positions = rotates ? std::min(a.tokens, a.sequence_length) : 0;
  const int unit = rotates ? a.half : 2 * a.half;
  const Joined<T> p{.query = heads_of<T>(a.query),
                    .key = heads_of<T>(a.key),
                    .value = heads_of<T>(a.value),
                    .joined = static_cast<T*>(a.joined),
                    .heads = heads,
                    .cosine = a.cosine,
                    .sine = a.sine,
                    .tiles = row_tiles(a.tokens, heads * unit, size),
                    .half = static_cast<unsigned>(a.half),
                    .unit = static_cast<unsigned>(unit),
                    .queries = static_cast<unsigned>(a.query.heads),
                    .queries_and_keys = static_cast<unsigned>(a.query.heads + a.key.heads),
                    .sequence_length = static_cast<unsigned>(positions)};
  const auto angles = static_cast<std::size_t>(positions * a.half);
  launch(stream, "joined_heads", joined_heads_kernel<T, size, rotates>, shape_of(p.tiles), p,
         {read_of<T>(a.query, a), read_of<T>(a.key, a), read_of<T>(a.value, a), reads(p.cosine, angles),
          reads(p.sine, angles), writes(p.joined, static_cast<std::size_t>(a.tokens * heads * 2 * a.half))});
}

template <class T>
bool is_whole(const HeadsOperand& a) {
  return a.token_stride % pack_size<T> == 0 && a.head_stride % pack_size<T> == 0 && are_aligned_to_packs(a.x);
}

template <class T, int size>
void start_with(const JoinedHeadsArguments& a, void* stream) {
  if (a.cosine != nullptr) return start<T, size, true>(a, stream);
  start<T, size, false>(a, stream);
}

template <class T>
void start_of(const JoinedHeadsArguments& a, void* stream) {
  const bool packs = a.half % pack_size<T> == 0 && is_whole<T>(a.query) && is_whole<T>(a.key) && is_whole<T>(a.value) &&
                     are_aligned_to_packs(a.joined, a.cosine, a.sine);
  if (packs) return start_with<T, pack_size<T>>(a, stream);
  start_with<T, 1>(a, stream);
}

void join(const JoinedHeadsArguments& a, void* stream) {
  if (a.tokens == 0 || a.half == 0) return;
  with_type_of(a.element, [&]<class T> { start_of<T>(a, stream); });
}

}  // namespace

const JoinedHeadsKernels cuda_joined_heads_kernels{join};

}  // namespace llmtrain::kernels
