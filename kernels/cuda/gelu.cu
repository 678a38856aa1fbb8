// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gelu_kernels.h"

#include <cmath>
#include <cstdint>

#include "kernels/cuda/device/column_pieces.h"
#include "kernels/cuda/device/logistic.h"
#include "kernels/cuda/device/row_tiles.h"

namespace llmtrain::kernels {
namespace {

template <class T>
struct Forward {
  const T* x;
  T* y;
  RowTiles tiles;
};

template <class T>
struct Backward {
  const T* dy;
  const T* x;
  T* dx;
  ColumnPieces columns;
};

// x·Φ(x), with Φ of the normal distribution and its density φ.
template <class T>
struct Exact {
  static __device__ __forceinline__ float distribution(float x) { return 0.5F * (1 + erff(x * 0.7071067812F)); }
  static __device__ __forceinline__ float value(float x) { return x * distribution(x); }
  static __device__ __forceinline__ float slope(float x) {
    return distribution(x) + x * 0.3989422804F * exponential<T>(-0.5F * x * x);
  }
};

// ½(1 + tanh u) = σ(2u), with 2u = 2√(2/π)(x + 0.044715x³): exact in the lower tail, where 1 + tanh u cancels.
template <class T>
struct Tanh {
  static constexpr float linear = 1.5957691216F, cubic = 1.5957691216F * 0.044715F;

  static __device__ __forceinline__ float gate(float x) { return logistic<T>(x * (cubic * x * x + linear)); }
  static __device__ __forceinline__ float value(float x) { return x * gate(x); }
  // y = x·σ(2u): slope = σ + x·(2u)′·σ·(1 − σ).
  static __device__ __forceinline__ float slope(float x) {
    const float s = gate(x);
    return s + x * (3 * cubic * x * x + linear) * (s * (1 - s));
  }
};

template <class T, int size, class Function>
__global__ void __launch_bounds__(row_tile_threads) gelu_forward_kernel(Forward<T> p) {
  using Elements = Pack<T, size>;
  over_tiles<size>(p.tiles, [&](std::int64_t row, int column) {
    const std::int64_t element = row * p.tiles.width + column;
    Elements value = *reinterpret_cast<const Elements*>(p.x + element);
#pragma unroll
    for (int k = 0; k < size; ++k) value.of[k] = narrowed<T>(Function::value(widened(value.of[k])));
    *reinterpret_cast<Elements*>(p.y + element) = value;
  });
}

// The sums are those of the rounded numbers, as where another pass over memory makes them.
template <class T, int size, class Function>
__global__ void __launch_bounds__(strip_threads) gelu_backward_kernel(Backward<T> p) {
  using Elements = Pack<T, size>;
  over_columns<size>(p.columns, [&](std::int64_t element, float(&sums)[size]) {
    const Elements dy = *reinterpret_cast<const Elements*>(p.dy + element);
    Elements value = *reinterpret_cast<const Elements*>(p.x + element);
#pragma unroll
    for (int k = 0; k < size; ++k) {
      value.of[k] = narrowed<T>(widened(dy.of[k]) * Function::slope(widened(value.of[k])));
      sums[k] += widened(value.of[k]);
    }
    *reinterpret_cast<Elements*>(p.dx + element) = value;
  });
}

std::size_t elements_of(const GeluArguments& a) {
  return static_cast<std::size_t>(a.rows) * static_cast<std::size_t>(a.width);
}

template <class T, int size, class Function>
void start_forward(const GeluArguments& a, void* stream) {
  const Forward<T> p{static_cast<const T*>(a.x), static_cast<T*>(a.out), row_tiles(a.rows, a.width, size)};
  launch(stream, "gelu_forward", gelu_forward_kernel<T, size, Function>, shape_of(p.tiles), p,
         {reads(p.x, elements_of(a)), writes(p.y, elements_of(a))});
}

template <class T, int size, class Function>
void start_backward(const GeluArguments& a, void* stream) {
  const Backward<T> p{static_cast<const T*>(a.dy), static_cast<const T*>(a.x), static_cast<T*>(a.out),
                      columns_of(a.partials, a.rows, a.width)};
  const auto sums = static_cast<std::size_t>(column_pieces(a.rows)) * static_cast<std::size_t>(a.width);
  launch(stream, "gelu_backward", gelu_backward_kernel<T, size, Function>, shape_of(p.columns, size), p,
         {reads(p.dy, elements_of(a)), reads(p.x, elements_of(a)), writes(p.dx, elements_of(a)),
          writes(a.partials, sums)});
}

// Calls work.operator()<type of elements, elements of a pack, function>().
template <class Work>
void with_kernel(const GeluArguments& a, Work work) {
  with_type_of(a.element, [&]<class T> {
    const bool is_packed = a.width % pack_size<T> == 0 && are_aligned_to_packs(a.dy, a.x, a.out);
    const bool is_exact = a.form == GeluForm::exact;
    if (is_packed && is_exact) return work.template operator()<T, pack_size<T>, Exact<T>>();
    if (is_packed) return work.template operator()<T, pack_size<T>, Tanh<T>>();
    if (is_exact) return work.template operator()<T, 1, Exact<T>>();
    work.template operator()<T, 1, Tanh<T>>();
  });
}

void forward(const GeluArguments& a, void* stream) {
  if (elements_of(a) == 0) return;
  with_kernel(a, [&]<class T, int size, class Function> { start_forward<T, size, Function>(a, stream); });
}

void backward(const GeluArguments& a, void* stream) {
  if (elements_of(a) == 0) return;
  with_kernel(a, [&]<class T, int size, class Function> { start_backward<T, size, Function>(a, stream); });
}

}  // namespace

const GeluKernels cuda_gelu_kernels{forward, backward};

}  // namespace llmtrain::kernels
