// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/adamw_kernels.h"
#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"

namespace llmtrain::kernels {
namespace {

constexpr int threads = 256;

template <class Gradient, class Weight>
struct Step {
  float* weights;
  float* m;
  float* v;
  const Gradient* gradients;
  Weight* compute_weights;             // or null
  std::int64_t before, packs, behind;  // elements in front of the packs, packs, elements behind them
  AdamwConstants constants;
};

struct Element {
  float weight, m, v;
};

// As in kernels/vector/adamw.cpp. A product is rounded before it is added to where the compiler is not told otherwise.
__device__ __forceinline__ Element stepped(const Element& before, float gradient, const AdamwConstants& c) {
  const float g = __fmul_rn(gradient, c.gradient_scale);
  const float m = fmaf(g - before.m, c.one_minus_beta1, before.m);
  const float v = fmaf(__fmul_rn(g, g), c.one_minus_beta2, __fmul_rn(before.v, c.beta2));
  const float denominator = sqrtf(v) / c.root_of_correction + c.eps;
  return {fmaf(before.weight, c.decay, -(__fmul_rn(c.step_size, m) / denominator)), m, v};
}

__device__ __forceinline__ unsigned bits_of(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }
__device__ __forceinline__ unsigned bits_of(__half x) { return __half_as_ushort(x); }

template <class Weight>
__device__ __forceinline__ void store_rounded(Weight* to, const Pack<float, 1>& values) {
  *to = narrowed<Weight>(values.of[0]);
}

// At once, which nvcc makes of no struct of 8 bytes.
template <class Weight>
__device__ __forceinline__ void store_rounded(Weight* to, const Pack<float, 4>& values) {
  std::uint64_t bits = 0;
  for (int k = 0; k < 4; ++k) bits |= std::uint64_t{bits_of(narrowed<Weight>(values.of[k]))} << 16 * k;
  *reinterpret_cast<std::uint64_t*>(to) = bits;
}

// The pack of `size` elements that begins at `at`.
template <int size, class Gradient, class Weight>
__device__ __forceinline__ void update(const Step<Gradient, Weight>& p, std::int64_t at) {
  using Floats = Pack<float, size>;
  using Gradients = Pack<Gradient, size>;
  auto& weights = *reinterpret_cast<Floats*>(p.weights + at);
  auto& m = *reinterpret_cast<Floats*>(p.m + at);
  auto& v = *reinterpret_cast<Floats*>(p.v + at);
  Floats new_weights = weights, new_m = m, new_v = v;
  const Gradients gradients = *reinterpret_cast<const Gradients*>(p.gradients + at);
  for (int k = 0; k < size; ++k) {
    const Element after = stepped({new_weights.of[k], new_m.of[k], new_v.of[k]}, widened(gradients.of[k]), p.constants);
    new_weights.of[k] = after.weight;
    new_m.of[k] = after.m;
    new_v.of[k] = after.v;
  }
  weights = new_weights;
  m = new_m;
  v = new_v;
  if (p.compute_weights != nullptr) store_rounded(p.compute_weights + at, new_weights);
}

template <int size, class Gradient, class Weight>
__global__ void __launch_bounds__(threads) adamw_kernel(Step<Gradient, Weight> p) {
  const std::int64_t own = std::int64_t{blockIdx.x} * threads + threadIdx.x, all = std::int64_t{gridDim.x} * threads;
  const std::int64_t packs_end = p.before + p.packs * size;
  if (own < p.before) update<1>(p, own);
  if (own < p.behind) update<1>(p, packs_end + own);
  for (std::int64_t i = own; i < p.packs; i += all) update<size>(p, p.before + i * size);
}

// As many floats as 16 bytes hold, and the same number of the others.
constexpr int pack = pack_size<float>;

// By how many elements an array begins behind the boundary of a pack.
template <class T>
std::uintptr_t skew_of(const T* begin) {
  return reinterpret_cast<std::uintptr_t>(begin) / sizeof(T) % pack;
}

template <int size, class Gradient, class Weight>
void start(const Step<Gradient, Weight>& p, std::int64_t n, void* stream) {
  constexpr std::int64_t most_blocks = std::int64_t{1} << 20;
  const std::int64_t blocks = std::clamp<std::int64_t>((p.packs + threads - 1) / threads, 1, most_blocks);
  const auto count = static_cast<std::size_t>(n);
  launch(stream, "adamw", adamw_kernel<size, Gradient, Weight>,
         {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)}, p,
         {writes(p.weights, count), writes(p.m, count), writes(p.v, count), reads(p.gradients, count),
          writes(p.compute_weights, count)});
}

template <class Gradient, class Weight>
void step_of(const AdamwArguments& a, const AdamwConstants& constants, void* stream) {
  Step<Gradient, Weight> p{
      a.weights, a.m, a.v,      static_cast<const Gradient*>(a.gradients), static_cast<Weight*>(a.compute_weights), 0,
      a.n,       0,   constants};
  const std::uintptr_t skew = skew_of(p.weights);
  const bool is_rounded = p.compute_weights != nullptr;
  // Parts of flat memory, which need not begin at the same place.
  if (skew_of(p.m) != skew || skew_of(p.v) != skew || skew_of(p.gradients) != skew ||
      (is_rounded && skew_of(p.compute_weights) != skew))
    return start<1>(p, a.n, stream);
  p.before = std::min<std::int64_t>((pack - static_cast<std::int64_t>(skew)) % pack, a.n);
  p.packs = (a.n - p.before) / pack;
  p.behind = a.n - p.before - p.packs * pack;
  start<pack>(p, a.n, stream);
}

template <class Gradient>
void with_weights(const AdamwArguments& a, const AdamwConstants& constants, void* stream) {
  if (a.compute_weight == KernelElement::fp16) return step_of<Gradient, __half>(a, constants, stream);
  step_of<Gradient, __nv_bfloat16>(a, constants, stream);
}

void step(const AdamwArguments& a, const AdamwConstants& constants, void* stream) {
  if (a.n == 0) return;
  with_type_of(a.gradient, [&]<class T> { with_weights<T>(a, constants, stream); });
}

}  // namespace

const AdamwDeviceKernels cuda_adamw_kernels{step};

}  // namespace llmtrain::kernels
