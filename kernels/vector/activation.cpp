// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/activation.h"

#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

// Outputs below which starting a second thread costs more than it saves.
constexpr std::int64_t least_parallel_outputs = 16384;

// Flat arrays are cut into rows of this width, so that any shape has work for every thread.
constexpr std::int64_t flat_width = 2048;

struct Normal {
  float distribution;  // Φ(x)
  float density;       // φ(x)
};

// Φ(−|x|) = e^(−x²/2)·t·P(t) with t = 1/(1 + 0.35|x|): a relative minimax fit of P to float64 values of erfc,
// to 3.2e−8. One exponential serves both, and the lower tail keeps its relative accuracy.
inline Normal normal(float x) {
  // bounded_exponential() takes no less than −87: beyond, the tail is below 2e−38 in any case.
  const float power = bounded_exponential(at_least(-0.5F * x * x, -87.0F));
  const float t = 1.0F / multiply_add(0.35F, __builtin_fabsf(x), 1.0F);
  float p = -2.916394174e-2F;
  p = multiply_add(p, t, 1.440609097e-1F);
  p = multiply_add(p, t, -2.559021115e-1F);
  p = multiply_add(p, t, 1.593932658e-1F);
  p = multiply_add(p, t, -2.326411940e-2F);
  p = multiply_add(p, t, 1.055749431e-1F);
  p = multiply_add(p, t, 1.198154613e-1F);
  p = multiply_add(p, t, 1.398643404e-1F);
  p = multiply_add(p, t, 1.396212578e-1F);
  const float tail = p * t * power;
  return {x < 0.0F ? tail : 1.0F - tail, 0.3989422804F * power};
}

struct Gelu {
  static float value(float x) { return x * normal(x).distribution; }
  static float slope(float x) {
    const Normal n = normal(x);
    return multiply_add(x, n.density, n.distribution);
  }
};

// ½(1 + tanh u) = σ(2u), with 2u = 2√(2/π)(x + 0.044715x³): exact in the lower tail, where 1 + tanh u cancels.
struct GeluTanh {
  static constexpr float linear = 1.5957691216F;
  static constexpr float cubic = 1.5957691216F * 0.044715F;
  static float value(float x) { return x * logistic(x * multiply_add(cubic * x, x, linear)).value; }
  static float slope(float x) {
    const Logistic s = logistic(x * multiply_add(cubic * x, x, linear));
    // y = x·σ(u(x)): slope = σ + x·u′·σ·(1 − σ).
    const float inner_slope = multiply_add(3.0F * cubic * x, x, linear);
    return multiply_add(x * inner_slope, s.value * s.complement, s.value);
  }
};

template <class Function, class Element>
void elementwise_forward(const ActivationArrays<Element>& arrays) {
  const std::int64_t n = arrays.rows * arrays.width;
#pragma omp parallel for schedule(static) if (n >= least_parallel_outputs)
  for (std::int64_t begin = 0; begin < n; begin += flat_width) {
    const std::int64_t count = n - begin < flat_width ? n - begin : flat_width;
    const Element* __restrict x = arrays.x + begin;
    Element* __restrict y = arrays.out + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) store(y[i], Function::value(to_float(x[i])));
  }
}

template <class Function, class Element>
void elementwise_backward(const ActivationArrays<Element>& arrays) {
  const std::int64_t n = arrays.rows * arrays.width;
#pragma omp parallel for schedule(static) if (n >= least_parallel_outputs)
  for (std::int64_t begin = 0; begin < n; begin += flat_width) {
    const std::int64_t count = n - begin < flat_width ? n - begin : flat_width;
    const Element* __restrict dy = arrays.dy + begin;
    const Element* __restrict x = arrays.x + begin;
    Element* __restrict dx = arrays.out + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) store(dx[i], to_float(dy[i]) * Function::slope(to_float(x[i])));
  }
}

template <class Element>
void swiglu_forward(const ActivationArrays<Element>& arrays) {
  const std::int64_t width = arrays.width;
#pragma omp parallel for schedule(static) if (arrays.rows * width >= least_parallel_outputs)
  for (std::int64_t row = 0; row < arrays.rows; ++row) {
    const Element* __restrict gate = arrays.x + row * 2 * width;
    const Element* __restrict up = gate + width;
    Element* __restrict y = arrays.out + row * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      const float g = to_float(gate[i]);
      store(y[i], g * logistic(g).value * to_float(up[i]));
    }
  }
}

template <class Element>
void swiglu_backward(const ActivationArrays<Element>& arrays) {
  const std::int64_t width = arrays.width;
#pragma omp parallel for schedule(static) if (arrays.rows * width >= least_parallel_outputs)
  for (std::int64_t row = 0; row < arrays.rows; ++row) {
    const Element* __restrict gate = arrays.x + row * 2 * width;
    const Element* __restrict up = gate + width;
    const Element* __restrict dy = arrays.dy + row * width;
    Element* __restrict dgate = arrays.out + row * 2 * width;
    Element* __restrict dup = arrays.out + row * 2 * width + width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      const float g = to_float(gate[i]);
      const float gradient = to_float(dy[i]);
      const Logistic s = logistic(g);
      // d(g·σ(g))/dg = σ(g)·(1 + g·(1 − σ(g))).
      store(dgate[i], gradient * to_float(up[i]) * s.value * multiply_add(g, s.complement, 1.0F));
      store(dup[i], gradient * g * s.value);
    }
  }
}

template <class Element>
ActivationKernels<Element> kernels() {
  return {.gelu = {elementwise_forward<Gelu, Element>, elementwise_backward<Gelu, Element>},
          .gelu_tanh = {elementwise_forward<GeluTanh, Element>, elementwise_backward<GeluTanh, Element>},
          .swiglu = {swiglu_forward<Element>, swiglu_backward<Element>}};
}

}  // namespace

template <>
ActivationKernels<float> activation_kernels_for<LLMTRAIN_VECTOR_LEVEL, float>() {
  return kernels<float>();
}

template <>
ActivationKernels<std::uint16_t> activation_kernels_for<LLMTRAIN_VECTOR_LEVEL, std::uint16_t>() {
  return kernels<std::uint16_t>();
}

}  // namespace llmtrain::kernels::vector
