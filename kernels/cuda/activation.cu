// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/cuda/activation_kernels.h"
#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/logistic.h"
#include "kernels/cuda/device/packs.h"
#include "kernels/cuda/device/row_tiles.h"

namespace llmtrain::kernels {
namespace {

template <class T>
struct Swiglu {
  const T* dy;
  const T* gate;
  const T* up;
  T* y;
  T* dgate;
  T* dup;
  std::int64_t stride;
  RowTiles tiles;
};

template <class T, int size>
__device__ __forceinline__ const Pack<T, size>& pack_at(const T* row, int column) {
  return *reinterpret_cast<const Pack<T, size>*>(row + column);
}

template <class T, int size>
__device__ __forceinline__ Pack<T, size>& pack_at(T* row, int column) {
  return *reinterpret_cast<Pack<T, size>*>(row + column);
}

template <class T, int size>
__global__ void __launch_bounds__(row_tile_threads) swiglu_forward_kernel(Swiglu<T> p) {
  const int width = p.tiles.width;
  over_tiles<size>(p.tiles, [&](std::int64_t row, int column) {
    const std::int64_t first = row * p.stride;
    const Pack<T, size> gate = pack_at<T, size>(p.gate + first, column), up = pack_at<T, size>(p.up + first, column);
    Pack<T, size> y;
#pragma unroll
    for (int k = 0; k < size; ++k) {
      const float g = widened(gate.of[k]);
      y.of[k] = narrowed<T>(g * logistic<T>(g) * widened(up.of[k]));
    }
    pack_at<T, size>(p.y + row * width, column) = y;
  });
}

template <class T, int size>
__global__ void __launch_bounds__(row_tile_threads) swiglu_backward_kernel(Swiglu<T> p) {
  const int width = p.tiles.width;
  over_tiles<size>(p.tiles, [&](std::int64_t row, int column) {
    const std::int64_t first = row * p.stride;
    const Pack<T, size> gate = pack_at<T, size>(p.gate + first, column), up = pack_at<T, size>(p.up + first, column);
    const Pack<T, size> dy = pack_at<T, size>(p.dy + row * width, column);
    Pack<T, size> dgate, dup;
#pragma unroll
    for (int k = 0; k < size; ++k) {
      const float g = widened(gate.of[k]), d = widened(dy.of[k]), s = logistic<T>(g);
      // silu'(g) = σ(g)(1 + g(1 − σ(g))).
      dgate.of[k] = narrowed<T>(d * widened(up.of[k]) * s * (1 + g * (1 - s)));
      dup.of[k] = narrowed<T>(d * g * s);
    }
    pack_at<T, size>(p.dgate + first, column) = dgate;
    pack_at<T, size>(p.dup + first, column) = dup;
  });
}

enum class Pass { forward, backward };

// Gate and up side by side are one array.
template <class T>
MemoryUse use_of_up(MemoryUse (*use)(const T*, std::size_t), const T* array, std::size_t count, bool is_apart) {
  return is_apart ? use(array, count) : MemoryUse();
}

template <class T, int size>
void start(const SwigluArguments& a, Pass pass, void* stream) {
  const Swiglu<T> p{static_cast<const T*>(a.dy),
                    static_cast<const T*>(a.gate),
                    static_cast<const T*>(a.up),
                    static_cast<T*>(a.y),
                    static_cast<T*>(a.dgate),
                    static_cast<T*>(a.dup),
                    a.stride,
                    row_tiles(a.rows, a.width, size)};
  const bool is_apart = a.stride == a.width;
  const auto count = static_cast<std::size_t>(a.rows) * static_cast<std::size_t>(a.width);
  const std::size_t of_first = is_apart ? count : 2 * count;
  switch (pass) {
    case Pass::forward:
      return launch(stream, "swiglu_forward", swiglu_forward_kernel<T, size>, shape_of(p.tiles), p,
                    {reads(p.gate, of_first), use_of_up<T>(reads<T>, p.up, count, is_apart), writes(p.y, count)});
    case Pass::backward:
      return launch(stream, "swiglu_backward", swiglu_backward_kernel<T, size>, shape_of(p.tiles), p,
                    {reads(p.dy, count), reads(p.gate, of_first), use_of_up<T>(reads<T>, p.up, count, is_apart),
                     writes(p.dgate, of_first), use_of_up<T>(writes<T>, p.dup, count, is_apart)});
  }
}

template <class T>
void start_of(const SwigluArguments& a, Pass pass, void* stream) {
  const bool is_whole = a.width % pack_size<T> == 0;
  if (is_whole && are_aligned_to_packs(a.dy, a.gate, a.up, a.y, a.dgate, a.dup))
    return start<T, pack_size<T>>(a, pass, stream);
  start<T, 1>(a, pass, stream);
}

void start_any(const SwigluArguments& a, Pass pass, void* stream) {
  if (a.rows == 0 || a.width == 0) return;
  with_type_of(a.element, [&]<class T> { start_of<T>(a, pass, stream); });
}

void swiglu_forward(const SwigluArguments& a, void* stream) { start_any(a, Pass::forward, stream); }

void swiglu_backward(const SwigluArguments& a, void* stream) { start_any(a, Pass::backward, stream); }

}  // namespace

const ActivationKernels cuda_activation_kernels{swiglu_forward, swiglu_backward};

}  // namespace llmtrain::kernels
