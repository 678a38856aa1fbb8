// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/fp8/scaled_adamw_kernels.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/fp8_span.h"
#include "kernels/cuda/device/launch.h"

namespace llmtrain::kernels {
namespace {

constexpr int threads = fp8_threads;

// Gradient is std::uint8_t (E4M3) or float, and so is M, the first moment's type; V is __half or float.
template <class Gradient, class M, class V>
struct Arrays {
  __half* weights;
  M* m;
  V* v;
  const Gradient* gradients;
  const float *weights_scale, *m_scale, *v_scale, *gradients_scale;
  const float* next;   // [3], of a step
  unsigned* partials;  // [3, blocks], of a search
  std::int64_t n;
  AdamwConstants step;
  Flag is_packed;
};

struct Element {
  float weight, m, v;
};

// `gradient` without the clipping coefficient.
__device__ __forceinline__ Element stepped(const Element& before, float gradient, const AdamwConstants& c) {
  // Rounded by itself, as on a processor, and not with the difference below.
  const float g = __fmul_rn(gradient, c.gradient_scale);
  // As PyTorch's lerp rounds.
  const float m = fmaf(g - before.m, c.one_minus_beta1, before.m);
  const float v = fmaf(g * g, c.one_minus_beta2, before.v * c.beta2);
  const float denominator = sqrtf(v) / c.root_of_correction + c.eps;
  return {fmaf(before.weight, c.decay, -(c.step_size * m / denominator)), m, v};
}

__device__ __forceinline__ float number(float x) { return x; }
__device__ __forceinline__ float number(__half x) { return widened(x); }
__device__ __forceinline__ float number(std::uint8_t code) { return widened_pair<Fp8Format::e4m3>(code).x; }

__device__ __forceinline__ void store(float& place, float value) { place = value; }
__device__ __forceinline__ void store(std::uint8_t& place, float value) {
  place = static_cast<std::uint8_t>(fp8_pair<Fp8Format::e4m3>(value, 0));
}
// Rounded to nearest, but to the least number instead of 0: a first moment over a second one that has been rounded away
// would be divided by eps alone.
__device__ __forceinline__ void store(__half& place, float value) {
  const __half rounded = narrowed<__half>(value);
  place = value > 0 && number(rounded) == 0 ? __half(__half_raw{1}) : rounded;
}

// A span of each array.
template <class Gradient, class M, class V>
struct Spans {
  Span<__half> weights;
  Span<M> m;
  Span<V> v;
  Span<Gradient> gradients;

  __device__ __forceinline__ void load(const Arrays<Gradient, M, V>& p, std::int64_t first, int count) {
    weights.load(p.weights + first, count, p.is_packed);
    m.load(p.m + first, count, p.is_packed);
    v.load(p.v + first, count, p.is_packed);
    gradients.load(p.gradients + first, count, p.is_packed);
  }
};

// Reciprocals of the scales, which are powers of two.
struct Units {
  float weights, m, v, gradients;
};

template <class Gradient, class M, class V>
__device__ __forceinline__ Units units_of(const Arrays<Gradient, M, V>& p) {
  return {1 / *p.weights_scale, 1 / *p.m_scale, 1 / *p.v_scale, 1 / *p.gradients_scale};
}

template <class Gradient, class M, class V>
__device__ __forceinline__ Element after(Spans<Gradient, M, V>& of, int i, const Units& units,
                                         const AdamwConstants& c) {
  const Element before{number(of.weights[i]) * units.weights, number(of.m[i]) * units.m, number(of.v[i]) * units.v};
  return stepped(before, number(of.gradients[i]) * units.gradients, c);
}

template <class Gradient, class M, class V>
__global__ void __launch_bounds__(threads) scaled_adamw_largest_kernel(Arrays<Gradient, M, V> p) {
  const Units units = units_of(p);
  unsigned weights = 0, m = 0, v = 0;
  over_spans(1, p.n, [&](std::int64_t, std::int64_t first, int count) {
    Spans<Gradient, M, V> of;
    of.load(p, first, count);
#pragma unroll
    for (int i = 0; i < span; ++i) {
      const Element element = after(of, i, units, p.step);
      if (i >= count) continue;
      weights = max(weights, magnitude_bits(element.weight));
      m = max(m, magnitude_bits(element.m));
      v = max(v, magnitude_bits(element.v));
    }
  });
  weights = block_largest<threads>(weights);
  m = block_largest<threads>(m);
  v = block_largest<threads>(v);
  if (threadIdx.x != 0) return;
  p.partials[blockIdx.x] = weights;
  p.partials[gridDim.x + blockIdx.x] = m;
  p.partials[2 * gridDim.x + blockIdx.x] = v;
}

template <class Gradient, class M, class V>
__global__ void __launch_bounds__(threads) scaled_adamw_step_kernel(Arrays<Gradient, M, V> p) {
  const Units units = units_of(p);
  const float weights_scale = p.next[0], m_scale = p.next[1], v_scale = p.next[2];
  over_spans(1, p.n, [&](std::int64_t, std::int64_t first, int count) {
    Spans<Gradient, M, V> of;
    of.load(p, first, count);
#pragma unroll
    for (int i = 0; i < span; ++i) {
      const Element element = after(of, i, units, p.step);
      of.weights[i] = narrowed<__half>(element.weight * weights_scale);
      store(of.m[i], element.m * m_scale);
      store(of.v[i], element.v * v_scale);
    }
    of.weights.store(p.weights + first, count, p.is_packed);
    of.m.store(p.m + first, count, p.is_packed);
    of.v.store(p.v + first, count, p.is_packed);
  });
}

template <class Gradient, class M, class V>
Arrays<Gradient, M, V> arrays_of(const ScaledAdamwArguments& a) {
  Arrays<Gradient, M, V> p{};
  p.weights = static_cast<__half*>(a.weights.payload);
  p.m = static_cast<M*>(a.m.payload);
  p.v = static_cast<V*>(a.v.payload);
  p.gradients = static_cast<const Gradient*>(a.gradients.payload);
  p.weights_scale = a.weights.scale;
  p.m_scale = a.m.scale;
  p.v_scale = a.v.scale;
  p.gradients_scale = a.gradients.scale;
  p.n = a.n;
  p.step = a.step;
  p.is_packed = are_packed(1, a.n, p.weights, p.m, p.v, p.gradients);
  return p;
}

template <class Gradient, class M, class V>
void start_largest(const ScaledAdamwArguments& a, unsigned* partials, float* largest, void* stream) {
  Arrays<Gradient, M, V> p = arrays_of<Gradient, M, V>(a);
  p.partials = partials;
  const unsigned blocks = blocks_of(1, a.n);
  const std::size_t n = size_of(a.n);
  if (blocks > 0)
    launch(stream, "scaled_adamw_largest", scaled_adamw_largest_kernel<Gradient, M, V>,
           {blocks, static_cast<unsigned>(threads)}, p,
           {reads(p.weights, n), reads(p.m, n), reads(p.v, n), reads(p.gradients, n), reads(p.weights_scale, 1),
            reads(p.m_scale, 1), reads(p.v_scale, 1), reads(p.gradients_scale, 1), writes(partials, 3 * blocks)});
  join_fp8(partials, 3, blocks, largest, stream);
}

template <class Gradient, class M, class V>
void start_step(const ScaledAdamwArguments& a, const float* next, void* stream) {
  Arrays<Gradient, M, V> p = arrays_of<Gradient, M, V>(a);
  p.next = next;
  const unsigned blocks = blocks_of(1, a.n);
  const std::size_t n = size_of(a.n);
  if (blocks == 0) return;
  launch(stream, "scaled_adamw", scaled_adamw_step_kernel<Gradient, M, V>, {blocks, static_cast<unsigned>(threads)}, p,
         {updates(p.weights, n), updates(p.m, n), updates(p.v, n), reads(p.gradients, n), reads(p.weights_scale, 1),
          reads(p.m_scale, 1), reads(p.v_scale, 1), reads(p.gradients_scale, 1), reads(next, 3)});
}

// Calls work.template operator()<Gradient, M, V>() for the types of the arrays.
template <class Work>
void with_types(const ScaledAdamwArguments& a, Work work) {
  if (a.has_small_moments && a.has_wide_gradients) return work.template operator()<float, std::uint8_t, __half>();
  if (a.has_small_moments) return work.template operator()<std::uint8_t, std::uint8_t, __half>();
  if (a.has_wide_gradients) return work.template operator()<float, float, float>();
  work.template operator()<std::uint8_t, float, float>();
}

void largest(const ScaledAdamwArguments& a, unsigned* partials, float* found, void* stream) {
  with_types(a, [&]<class Gradient, class M, class V> { start_largest<Gradient, M, V>(a, partials, found, stream); });
}

void step(const ScaledAdamwArguments& a, const float* next, void* stream) {
  with_types(a, [&]<class Gradient, class M, class V> { start_step<Gradient, M, V>(a, next, stream); });
}

}  // namespace

const ScaledAdamwDeviceKernels cuda_scaled_adamw_kernels{largest, step};

}  // namespace llmtrain::kernels
