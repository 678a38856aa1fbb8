// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/ascending.h"
#include "kernels/cuda/device/flat_packs.h"
#include "kernels/cuda/optimizer/adamw_kernels.h"

namespace llmtrain::kernels {
namespace {

// Elements from which on weights decay or no longer do, as AdamwArguments has them.
struct Changes {
  static constexpr std::int64_t most = 498;
  std::int64_t count = 0;
  std::int64_t first_decays = 1;  // whole, as the parameters are to have no gaps
  std::int64_t at[most] = {};
};

template <class Gradient, class Weight>
struct Step {
  float* weights;
  float* m;
  float* v;
  const Gradient* gradients;
  Weight* compute_weights;  // or null
  FlatPacks packs;
  AdamwConstants constants;
  Changes changes;
};
// What every GPU takes.
static_assert(sizeof(Step<float, __half>) <= 4096);

struct Element {
  float weight, m, v;
};

// As in kernels/vector/adamw.cpp. A product is rounded before it is added to where the compiler is not told otherwise.
__device__ __forceinline__ Element stepped(const Element& before, float gradient, float decay,
                                           const AdamwConstants& c) {
  const float g = __fmul_rn(gradient, c.gradient_scale);
  const float m = fmaf(g - before.m, c.one_minus_beta1, before.m);
  const float v = fmaf(__fmul_rn(g, g), c.one_minus_beta2, __fmul_rn(before.v, c.beta2));
  const float denominator = sqrtf(v) / c.root_of_correction + c.eps;
  return {fmaf(before.weight, decay, -(__fmul_rn(c.step_size, m) / denominator)), m, v};
}

// The decays of elements one after the other, from the one on with which it is made.
class Decays {
 public:
  __device__ __forceinline__ Decays(const Changes& changes, float decay, std::int64_t i)
      : changes_(changes), decay_(decay), i_(i), passed_(count_until(changes.at, changes.count, i)) {
    find_next();
  }

  __device__ __forceinline__ float next() {
    while (next_ <= i_) {
      ++passed_;
      find_next();
    }
    ++i_;
    return (passed_ % 2 == 0) == (changes_.first_decays != 0) ? decay_ : 1;
  }

 private:
  __device__ __forceinline__ void find_next() { next_ = passed_ < changes_.count ? changes_.at[passed_] : INT64_MAX; }

  const Changes& changes_;
  float decay_;
  std::int64_t i_, passed_, next_ = 0;
};

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
  Decays decays(p.changes, p.constants.decay, at);
  for (int k = 0; k < size; ++k) {
    const Element after =
        stepped({new_weights.of[k], new_m.of[k], new_v.of[k]}, widened(gradients.of[k]), decays.next(), p.constants);
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

// Elements [begin, end), in which there are `changes`.
template <class Gradient, class Weight>
void step_part(const AdamwArguments& a, std::int64_t begin, std::int64_t end, const Changes& changes,
               const AdamwConstants& constants, void* stream) {
  auto* const rounded = static_cast<Weight*>(a.compute_weights);
  const Step<Gradient, Weight> p{a.weights + begin,
                                 a.m + begin,
                                 a.v + begin,
                                 static_cast<const Gradient*>(a.gradients) + begin,
                                 rounded == nullptr ? nullptr : rounded + begin,
                                 {},
                                 constants,
                                 changes};
  const auto n = static_cast<std::size_t>(end - begin);
  launch_flat(
      stream, "adamw", [](auto size) { return adamw_kernel<decltype(size)::value, Gradient, Weight>; }, end - begin, p,
      {updates(p.weights, n), updates(p.m, n), updates(p.v, n), reads(p.gradients, n), writes(p.compute_weights, n)},
      p.weights, p.m, p.v, p.gradients, p.compute_weights);
}

// Calls work(begin, end, changes from `begin` on) for parts whose changes fit a kernel's parameters.
template <class Work>
void in_parts(const AdamwArguments& a, Work work) {
  bool decays = a.first_decays;
  std::int64_t begin = 0;
  for (std::int64_t next = 0; next <= a.change_count;) {
    Changes changes{.count = std::min(Changes::most, a.change_count - next), .first_decays = decays ? 1 : 0};
    for (std::int64_t i = 0; i < changes.count; ++i) changes.at[i] = a.changes[next + i] - begin;
    next += changes.count;
    // The change at which a part ends is the next one's beginning.
    const std::int64_t end = next < a.change_count ? a.changes[next] : a.n;
    if (begin < end) work(begin, end, changes);
    decays = decays != ((changes.count + 1) % 2 != 0);
    begin = end;
    ++next;
  }
}

template <class Gradient>
void with_weights(const AdamwArguments& a, const AdamwConstants& constants, void* stream) {
  in_parts(a, [&](std::int64_t begin, std::int64_t end, const Changes& changes) {
    (a.compute_weight == KernelElement::fp16
         ? step_part<Gradient, __half>
         : step_part<Gradient, __nv_bfloat16>)(a, begin, end, changes, constants, stream);
  });
}

void step(const AdamwArguments& a, const AdamwConstants& constants, void* stream) {
  with_type_of(a.gradient, [&]<class T> { with_weights<T>(a, constants, stream); });
}

}  // namespace

const AdamwDeviceKernels cuda_adamw_kernels{step};

}  // namespace llmtrain::kernels
