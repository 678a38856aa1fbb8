// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizer/muon_kernels.h"

#include "kernels/cuda/device/flat_packs.h"

namespace llmtrain::kernels {
namespace {

template <class Gradient>
struct Mean {
  const float* mean;
  const Gradient* gradients;
  float* result;
  FlatPacks packs;
  float momentum, share;
};

template <class T>
struct Normalize {
  const float* matrix;
  const double* sum_of_squares;
  T* result;
  FlatPacks packs;
  double smallest_norm;  // wide, as the parameters are to have no gaps
};

template <class T>
struct Polynomial {
  const T* gram;
  T* square;
  FlatPacks packs;
  std::int64_t side;
  float unit, gram_factor, square_factor;
  int gap = 0;
};

template <class T>
struct Scale {
  const T* x;
  float* result;
  FlatPacks packs;
  double scale;
};

template <class Weight>
struct Step {
  float* weights;
  const float* values;
  Weight* compute_weights;  // or null
  FlatPacks packs;
  float decay, learning_rate;
};

template <int size, class Gradient>
__global__ void __launch_bounds__(flat_threads) muon_mean_kernel(Mean<Gradient> p) {
  over_flat<size>(p.packs, [&](std::int64_t at, auto count) {
    constexpr int own = decltype(count)::value;
    auto mean = load_widened<own>(p.mean + at);
    const auto gradients = load_widened<own>(p.gradients + at);
#pragma unroll
    for (int k = 0; k < own; ++k) mean.of[k] = fmaf(gradients.of[k], p.share, __fmul_rn(mean.of[k], p.momentum));
    store_narrowed(p.result + at, mean);
  });
}

template <int size, class T>
__global__ void __launch_bounds__(flat_threads) muon_normalize_kernel(Normalize<T> p) {
  const auto norm = static_cast<float>(fmax(sqrt(*p.sum_of_squares), p.smallest_norm));
  over_flat<size>(p.packs, [&](std::int64_t at, auto count) {
    constexpr int own = decltype(count)::value;
    auto values = load_widened<own>(p.matrix + at);
#pragma unroll
    for (int k = 0; k < own; ++k) values.of[k] /= norm;
    store_narrowed(p.result + at, values);
  });
}

template <int size, class T>
__global__ void __launch_bounds__(flat_threads) muon_polynomial_kernel(Polynomial<T> p) {
  over_flat<size>(p.packs, [&](std::int64_t at, auto count) {
    constexpr int own = decltype(count)::value;
    const auto gram = load_widened<own>(p.gram + at);
    auto values = load_widened<own>(p.square + at);
    // Elements of the diagonal are side + 1 apart.
    const auto beyond = static_cast<int>(at % (p.side + 1));
    const std::int64_t until = beyond == 0 ? 0 : p.side + 1 - beyond;
#pragma unroll
    for (int k = 0; k < own; ++k) {
      const bool is_diagonal = k >= until && (k - until) % (p.side + 1) == 0;
      const float sum = fmaf(gram.of[k], p.gram_factor, __fmul_rn(values.of[k], p.square_factor));
      values.of[k] = is_diagonal ? sum + p.unit : sum;
    }
    store_narrowed(p.square + at, values);
  });
}

template <int size, class T>
__global__ void __launch_bounds__(flat_threads) muon_scale_kernel(Scale<T> p) {
  const auto scale = static_cast<float>(p.scale);
  over_flat<size>(p.packs, [&](std::int64_t at, auto count) {
    constexpr int own = decltype(count)::value;
    auto values = load_widened<own>(p.x + at);
#pragma unroll
    for (int k = 0; k < own; ++k) values.of[k] *= scale;
    store_narrowed(p.result + at, values);
  });
}

template <int size, class Weight>
__global__ void __launch_bounds__(flat_threads) muon_step_kernel(Step<Weight> p) {
  over_flat<size>(p.packs, [&](std::int64_t at, auto count) {
    constexpr int own = decltype(count)::value;
    auto weights = load_widened<own>(p.weights + at);
    const auto values = load_widened<own>(p.values + at);
#pragma unroll
    for (int k = 0; k < own; ++k)
      weights.of[k] = fmaf(values.of[k], -p.learning_rate, __fmul_rn(weights.of[k], p.decay));
    store_narrowed(p.weights + at, weights);
    if (p.compute_weights != nullptr) store_narrowed(p.compute_weights + at, weights);
  });
}

std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }

template <class Gradient>
void start(const MuonMeanArguments& a, void* stream) {
  const Mean<Gradient> p{a.mean, static_cast<const Gradient*>(a.gradients), a.result, {}, a.momentum, a.share};
  const std::size_t n = size_of(a.n);
  launch_flat(
      stream, "muon_mean", [](auto size) { return muon_mean_kernel<decltype(size)::value, Gradient>; }, a.n, p,
      {reads(p.mean, n), reads(p.gradients, n), writes(p.result, n)}, p.mean, p.gradients, p.result);
}

template <class T>
void start(const MuonNormalizeArguments& a, void* stream) {
  const Normalize<T> p{a.matrix, a.sum_of_squares, static_cast<T*>(a.result), {}, a.smallest_norm};
  const std::size_t n = size_of(a.n);
  launch_flat(
      stream, "muon_normalize", [](auto size) { return muon_normalize_kernel<decltype(size)::value, T>; }, a.n, p,
      {reads(p.matrix, n), reads(p.sum_of_squares, 1), writes(p.result, n)}, p.matrix, p.result);
}

template <class T>
void start(const MuonPolynomialArguments& a, void* stream) {
  const MuonCoefficients& c = a.coefficients;
  const Polynomial<T> p{static_cast<const T*>(a.gram), static_cast<T*>(a.square), {}, a.side, c.unit, c.gram, c.square};
  const std::size_t n = size_of(a.side * a.side);
  launch_flat(
      stream, "muon_polynomial", [](auto size) { return muon_polynomial_kernel<decltype(size)::value, T>; },
      a.side * a.side, p, {reads(p.gram, n), updates(p.square, n)}, p.gram, p.square);
}

template <class T>
void start(const MuonScaleArguments& a, void* stream) {
  const Scale<T> p{static_cast<const T*>(a.x), a.result, {}, a.scale};
  const std::size_t n = size_of(a.n);
  launch_flat(
      stream, "muon_scale", [](auto size) { return muon_scale_kernel<decltype(size)::value, T>; }, a.n, p,
      {reads(p.x, n), writes(p.result, n)}, p.x, p.result);
}

template <class Weight>
void start(const MuonStepArguments& a, void* stream) {
  const Step<Weight> p{a.weights, a.values, static_cast<Weight*>(a.compute_weights), {}, a.decay, a.learning_rate};
  const std::size_t n = size_of(a.n);
  launch_flat(
      stream, "muon_step", [](auto size) { return muon_step_kernel<decltype(size)::value, Weight>; }, a.n, p,
      {updates(p.weights, n), reads(p.values, n), writes(p.compute_weights, n)}, p.weights, p.values,
      p.compute_weights);
}

void mean(const MuonMeanArguments& a, void* stream) {
  if (a.n > 0) with_type_of(a.gradient, [&]<class T> { start<T>(a, stream); });
}
void normalize(const MuonNormalizeArguments& a, void* stream) {
  if (a.n > 0) with_type_of(a.element, [&]<class T> { start<T>(a, stream); });
}
void polynomial(const MuonPolynomialArguments& a, void* stream) {
  if (a.side > 0) with_type_of(a.element, [&]<class T> { start<T>(a, stream); });
}
void scale(const MuonScaleArguments& a, void* stream) {
  if (a.n > 0) with_type_of(a.element, [&]<class T> { start<T>(a, stream); });
}
void step(const MuonStepArguments& a, void* stream) {
  if (a.n > 0) with_type_of(a.compute_weight, [&]<class T> { start<T>(a, stream); });
}

}  // namespace

const MuonKernels cuda_muon_kernels{mean, normalize, polynomial, scale, step};

}  // namespace llmtrain::kernels
