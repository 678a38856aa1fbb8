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
  StochasticRounding rounding;  // of a step that rounds at random
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

// The random words of elements one after the other, from the one on with which it is made.
class RandomWords {
 public:
  __device__ RandomWords(const StochasticRounding& of, std::int64_t i) : rounding_(of), i_(i) { find(); }

  __device__ __forceinline__ uint2 next() {
    if (left_ == 0) find();
    const bool is_odd = index_ % 2 != 0;
    if (!is_odd || !has_words_) fill();
    ++index_;
    ++i_;
    --left_;
    return is_odd ? make_uint2(words_[2], words_[3]) : make_uint2(words_[0], words_[1]);
  }

 private:
  __device__ __forceinline__ void find() {
    const RunPart part = run_part(rounding_, i_, span);
    index_ = part.index;
    left_ = part.left;
    has_words_ = false;
  }
  __device__ __forceinline__ void fill() {
    const auto counter = static_cast<std::uint64_t>(index_ / 2);
    words_[0] = static_cast<std::uint32_t>(counter);
    words_[1] = static_cast<std::uint32_t>(counter >> 32);
    words_[2] = words_[3] = 0;
    philox_in_place(rounding_.key, words_);
    has_words_ = true;
  }

  const StochasticRounding& rounding_;
  std::int64_t i_, index_ = 0, left_ = 0;
  std::uint32_t words_[4] = {};
  bool has_words_ = false;
};

__device__ __forceinline__ float at_random(const float& /*place*/, float value, uint2 /*words*/) { return value; }
__device__ __forceinline__ float at_random(const std::uint8_t& /*place*/, float m, uint2 words) {
  return rounded_at_random<E4m3Format>(m, wide_threshold(words.y));
}
__device__ __forceinline__ float at_random(const __half& /*place*/, float v, uint2 words) {
  return second_moment_at_random(v, high_threshold(words.x));
}

template <bool is_random, class Gradient, class M, class V>
__global__ void __launch_bounds__(threads) scaled_adamw_step_kernel(Arrays<Gradient, M, V> p) {
  const Units units = units_of(p);
  const float weights_scale = p.next[0], m_scale = p.next[1], v_scale = p.next[2];
  over_spans(1, p.n, [&](std::int64_t, std::int64_t first, int count) {
    Spans<Gradient, M, V> of;
    of.load(p, first, count);
    RandomWords random(p.rounding, first);
#pragma unroll
    for (int i = 0; i < span; ++i) {
      const Element element = after(of, i, units, p.step);
      float weight = element.weight * weights_scale, m = element.m * m_scale, v = element.v * v_scale;
      if constexpr (is_random) {
        const uint2 words = random.next();
        weight = rounded_at_random<Fp16Format>(weight, low_threshold(words.x));
        m = at_random(of.m[i], m, words);
        v = at_random(of.v[i], v, words);
      }
      of.weights[i] = narrowed<__half>(weight);
      store(of.m[i], m);
      store(of.v[i], v);
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

template <bool is_random, class Gradient, class M, class V>
void start_step(const ScaledAdamwArguments& a, const float* next, const StochasticRounding* rounding, void* stream) {
  Arrays<Gradient, M, V> p = arrays_of<Gradient, M, V>(a);
  p.next = next;
  if (is_random) p.rounding = *rounding;
  const unsigned blocks = blocks_of(1, a.n);
  const std::size_t n = size_of(a.n);
  if (blocks == 0) return;
  launch(stream, "scaled_adamw", scaled_adamw_step_kernel<is_random, Gradient, M, V>,
         {blocks, static_cast<unsigned>(threads)}, p,
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

void step(const ScaledAdamwArguments& a, const float* next, const StochasticRounding* rounding, void* stream) {
  with_types(a, [&]<class Gradient, class M, class V> {
    (rounding != nullptr ? start_step<true, Gradient, M, V> : start_step<false, Gradient, M, V>)(a, next, rounding,
                                                                                                 stream);
  });
}

}  // namespace

const ScaledAdamwDeviceKernels cuda_scaled_adamw_kernels{largest, step};

}  // namespace llmtrain::kernels
