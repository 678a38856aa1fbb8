// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/rotation.h"
#include "kernels/cuda/device/row_tiles.h"
#include "kernels/cuda/rope_kernels.h"

namespace llmtrain::kernels {
namespace {

template <class T>
struct Rope {
  T* x;
  const float* cosine;
  const float* sine;
  RowTiles tiles;  // a row has the pairs of a token: [heads, half]
  unsigned half;
  std::int64_t token_stride, head_stride;
  unsigned sequence_length;
  float direction;
};

template <class T, int size>
__global__ void __launch_bounds__(row_tile_threads) rope_kernel(Rope<T> p) {
  using Elements = Pack<T, size>;
  over_tiles<size>(p.tiles, [&](std::int64_t token, int pair) {
    const unsigned head = static_cast<unsigned>(pair) / p.half, column = static_cast<unsigned>(pair) - head * p.half;
    T* const first = p.x + token * p.token_stride + head * p.head_stride + column;
    auto* const low = reinterpret_cast<Elements*>(first);
    auto* const high = reinterpret_cast<Elements*>(first + p.half);
    Elements a = *low, b = *high;
    const unsigned position = static_cast<unsigned>(token) % p.sequence_length;
    const std::int64_t angles = static_cast<std::int64_t>(position) * p.half + column;
    rotate_pairs(a, b, p.cosine + angles, p.sine + angles, p.direction);
    *low = a;
    *high = b;
  });
}

template <class T, int size>
void start(const RopeArguments& a, void* stream) {
  const std::int64_t positions = std::min(a.tokens, a.sequence_length);
  const Rope<T> p{.x = static_cast<T*>(a.x),
                  .cosine = a.cosine,
                  .sine = a.sine,
                  .tiles = row_tiles(a.tokens, a.heads * a.half, size),
                  .half = static_cast<unsigned>(a.half),
                  .token_stride = a.token_stride,
                  .head_stride = a.head_stride,
                  .sequence_length = static_cast<unsigned>(positions),
                  .direction = a.direction};
  // From the first element to the last; what lies between heads or tokens counts as well.
  const std::int64_t span = (a.tokens - 1) * a.token_stride + (a.heads - 1) * a.head_stride + 2 * a.half;
  const auto angles = static_cast<std::size_t>(positions * a.half);
  launch(stream, "rope", rope_kernel<T, size>, shape_of(p.tiles), p,
         {updates(p.x, static_cast<std::size_t>(span)), reads(p.cosine, angles), reads(p.sine, angles)});
}

template <class T>
void start_of(const RopeArguments& a, void* stream) {
  constexpr int size = pack_size<T>;
  const bool is_whole = a.half % size == 0 && a.token_stride % size == 0 && a.head_stride % size == 0;
  if (is_whole && are_aligned_to_packs(a.x, a.cosine, a.sine)) return start<T, size>(a, stream);
  start<T, 1>(a, stream);
}

void rotate(const RopeArguments& a, void* stream) {
  if (a.tokens == 0 || a.heads == 0 || a.half == 0) return;
  with_type_of(a.element, [&]<class T> { start_of<T>(a, stream); });
}

}  // namespace

const RopeKernels cuda_rope_kernels{rotate};

}  // namespace llmtrain::kernels
