// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/cuda/device/flat_packs.h"
#include "kernels/cuda/optimizer/adamw_kernels.h"

namespace llmtrain::kernels {
namespace {

template <class Gradient, class Weight>
struct Step {
  float* weights;
  float* m;
  float* v;
  const Gradient* gradients;
  Weight* compute_weights;  // or null
  FlatPacks packs;
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
  if (p.compute_weights != nullptr) store_narrowed(p.compute_weights + at, new_weights);
}

template <int size, class Gradient, class Weight>
__global__ void __launch_bounds__(flat_threads) adamw_kernel(Step<Gradient, Weight> p) {
  over_flat<size>(p.packs, [&](std::int64_t at, auto count) { update<decltype(count)::value>(p, at); });
}

template <class Gradient, class Weight>
void step_of(const AdamwArguments& a, const AdamwConstants& constants, void* stream) {
  const Step<Gradient, Weight> p{
      a.weights, a.m,      a.v, static_cast<const Gradient*>(a.gradients), static_cast<Weight*>(a.compute_weights),
      {},        constants};
  const auto n = static_cast<std::size_t>(a.n);
  launch_flat(
      stream, "adamw", [](auto size) { return adamw_kernel<decltype(size)::value, Gradient, Weight>; }, a.n, p,
      {updates(p.weights, n), updates(p.m, n), updates(p.v, n), reads(p.gradients, n), writes(p.compute_weights, n)},
      p.weights, p.m, p.v, p.gradients, p.compute_weights);
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
