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

struct Relu {
  static float value(float x) { return at_least(x, 0.0F); }
  // NaN has no slope but itself.
  static float slope(float x) {
    const float above = x > 0.0F ? 1.0F : 0.0F;
    return x == x ? above : x;
  }
};

struct SquaredRelu {
  static float value(float x) {
    const float positive = at_least(x, 0.0F);
    return positive * positive;
  }
  static float slope(float x) { return 2.0F * at_least(x, 0.0F); }
};

// The gradients at gate and up.
struct GatedGradient {
  float gate;
  float up;
};

struct Swiglu {
  static float value(float gate, float up) { return gate * logistic(gate).value * up; }
  static GatedGradient gradient(float dy, float gate, float up) {
    const Logistic s = logistic(gate);
    // d(g·σ(g))/dg = σ(g)·(1 + g·(1 − σ(g))).
    return {dy * up * s.value * multiply_add(gate, s.complement, 1.0F), dy * gate * s.value};
  }
};

template <class Function>
struct Geglu {
  static float value(float gate, float up) { return Function::value(gate) * up; }
  static GatedGradient gradient(float dy, float gate, float up) {
    return {dy * up * Function::slope(gate), dy * Function::value(gate)};
  }
};

struct ClampedSwiglu {
  static constexpr auto limit = static_cast<float>(clamped_swiglu_limit);
  static constexpr auto steepness = static_cast<float>(clamped_swiglu_steepness);

  static float value(float gate, float up) {
    const float g = at_most(gate, limit), u = at_least(at_most(up, limit), -limit);
    return g * logistic(steepness * g).value * (u + 1.0F);
  }
  static GatedGradient gradient(float dy, float gate, float up) {
    const float g = at_most(gate, limit), u = at_least(at_most(up, limit), -limit);
    const Logistic s = logistic(steepness * g);
    const float of_gate = dy * (u + 1.0F) * s.value * multiply_add(steepness * g, s.complement, 1.0F);
    const float of_up = dy * g * s.value;
    return {gate > limit ? 0.0F : of_gate, __builtin_fabsf(up) > limit ? 0.0F : of_up};
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

template <class Function, class Element>
void gated_forward(const ActivationArrays<Element>& arrays) {
  const std::int64_t width = arrays.width;
#pragma omp parallel for schedule(static) if (arrays.rows * width >= least_parallel_outputs)
  for (std::int64_t row = 0; row < arrays.rows; ++row) {
    const Element* __restrict gate = arrays.x + row * 2 * width;
    const Element* __restrict up = gate + width;
    Element* __restrict y = arrays.out + row * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) store(y[i], Function::value(to_float(gate[i]), to_float(up[i])));
  }
}

template <class Function, class Element>
void gated_backward(const ActivationArrays<Element>& arrays) {
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
      const GatedGradient d = Function::gradient(to_float(dy[i]), to_float(gate[i]), to_float(up[i]));
      store(dgate[i], d.gate);
      store(dup[i], d.up);
    }
  }
}

template <class Function, class Element>
constexpr ActivationPasses<Element> elementwise{elementwise_forward<Function, Element>,
                                                elementwise_backward<Function, Element>};
template <class Function, class Element>
constexpr ActivationPasses<Element> gated{gated_forward<Function, Element>, gated_backward<Function, Element>};

template <class Element>
ActivationKernels<Element> kernels() {
  return {.gelu = elementwise<Gelu, Element>,
          .gelu_tanh = elementwise<GeluTanh, Element>,
          .relu = elementwise<Relu, Element>,
          .squared_relu = elementwise<SquaredRelu, Element>,
          .swiglu = gated<Swiglu, Element>,
          .geglu = gated<Geglu<Gelu>, Element>,
          .geglu_tanh = gated<Geglu<GeluTanh>, Element>,
          .clamped_swiglu = gated<ClampedSwiglu, Element>};
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
