// SPDX-License-Identifier: Apache-2.0
// AdamW's kernel, run on the processor, against the same operations written down again and against float64: all types,
// parts of flat memory that begin anywhere, none at all, tensors whose weights decay and others.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/cuda/device/ascending.h"
#include "kernels/cuda/optimizer/adamw_kernels.h"
#include "tests/cuda_on_host/machine/launch.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

using llmtrain::test::ExactArray;

constexpr AdamwConstants constants{.gradient_scale = 0.37F,
                                   .decay = 0.999F,
                                   .one_minus_beta1 = 0.1F,
                                   .beta2 = 0.95F,
                                   .one_minus_beta2 = 0.05F,
                                   .root_of_correction = 0.3F,
                                   .eps = 1e-8F,
                                   .step_size = 0.01F};

// Where an array begins, in elements behind a boundary of 16 bytes.
struct Begins {
  std::size_t weights = 0, m = 0, v = 0, gradients = 0, compute_weights = 0;
};

struct Changes {
  bool first_decays = true;
  std::vector<std::int64_t> at;
  bool decays(std::size_t i) const {
    return first_decays ==
           (std::ranges::count_if(at, [&](std::int64_t each) { return each <= static_cast<std::int64_t>(i); }) % 2 ==
            0);
  }
};

template <class T>
struct Part {
  Part(std::size_t first, std::size_t count) : begin(first), values(first + count) {}
  T* data() const { return values.data() + begin; }
  T& operator[](std::size_t i) const { return data()[i]; }
  std::size_t begin;
  ExactArray<T> values;
};

template <class Gradient, class Weight>
struct Case {
  Case(std::size_t count, const Begins& begins)
      : n(count),
        weights(begins.weights, n),
        m(begins.m, n),
        v(begins.v, n),
        gradients(begins.gradients, n),
        rounded(begins.compute_weights, n) {
    for (std::size_t i = 0; i < n; ++i) {
      weights[i] = normal(engine);
      m[i] = normal(engine) / 8;
      v[i] = normal(engine) * normal(engine) / 8;
      v[i] = std::abs(v[i]);
      // Gradients of many sizes, and none.
      gradients[i] = narrowed<Gradient>(i % 11 == 0 ? 0.0F : std::ldexp(normal(engine), -static_cast<int>(i % 13)));
    }
  }
  void step(bool is_rounded, const Changes& changes) const {
    cuda_adamw_kernels.step({weights.data(), m.data(), v.data(), kind_of<Gradient>, gradients.data(), kind_of<Weight>,
                             is_rounded ? rounded.data() : nullptr, static_cast<std::int64_t>(n), changes.first_decays,
                             changes.at.data(), static_cast<std::int64_t>(changes.at.size())},
                            constants, nullptr);
  }
  bool has_overrun() const {
    return weights.values.has_overrun() || m.values.has_overrun() || v.values.has_overrun() ||
           gradients.values.has_overrun() || rounded.values.has_overrun();
  }

  std::size_t n;
  std::mt19937 engine{5};
  std::normal_distribution<float> normal;
  Part<float> weights, m, v;
  Part<Gradient> gradients;
  Part<Weight> rounded;
};

// The step of one element in T; in fp32 with the roundings of a processor that multiplies and adds at once.
template <class T>
struct Element {
  T weight, m, v;
};

template <class T>
Element<T> stepped(const Element<T>& before, T gradient, bool decays) {
  const auto& c = constants;
  const T decay = decays ? static_cast<T>(c.decay) : T{1};
  const T g = gradient * static_cast<T>(c.gradient_scale);
  const T square = g * g, decayed = before.v * static_cast<T>(c.beta2);
  const T m = std::fma(g - before.m, static_cast<T>(c.one_minus_beta1), before.m);
  const T v = std::fma(square, static_cast<T>(c.one_minus_beta2), decayed);
  const T denominator = std::sqrt(v) / static_cast<T>(c.root_of_correction) + static_cast<T>(c.eps);
  const T change = static_cast<T>(c.step_size) * m / denominator;
  return {std::fma(before.weight, decay, -change), m, v};
}

bool differs(float got, double want, double size) {
  return !(std::abs(static_cast<double>(got) - want) <= 0x1p-22 * size);
}

template <class Gradient, class Weight>
void check_step(std::size_t n, const Begins& begins, bool is_rounded, const Changes& changes = {}) {
  INFO(n << " elements from " << begins.weights << begins.m << begins.v << begins.gradients << begins.compute_weights);
  const Case<Gradient, Weight> c(n, begins), before(n, begins);
  c.step(is_rounded, changes);
  std::size_t wrong = 0, far = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float w = before.weights[i], m = before.m[i], v = before.v[i], g = widened(before.gradients[i]);
    const bool decays = changes.decays(i);
    const Element<float> want = stepped<float>({w, m, v}, g, decays);
    wrong += !(c.weights[i] == want.weight && c.m[i] == want.m && c.v[i] == want.v);
    wrong += widened(c.rounded[i]) != (is_rounded ? widened(narrowed<Weight>(want.weight)) : 0);
    const Element<double> exact = stepped<double>({w, m, v}, g, decays);
    const double change = std::abs(exact.weight - static_cast<double>(w));
    far += differs(c.weights[i], exact.weight, std::abs(static_cast<double>(w)) + 4 * change);
    far += differs(c.m[i], exact.m, std::abs(static_cast<double>(m)) + std::abs(static_cast<double>(g)));
    far += differs(c.v[i], exact.v, exact.v);
  }
  CHECK(wrong == 0);
  CHECK(far == 0);
  CHECK_FALSE(c.has_overrun());
}

template <class Gradient, class Weight>
void check_steps() {
  for (const std::size_t n : {0U, 1U, 3U, 4U, 29U, 2050U}) {
    check_step<Gradient, Weight>(n, {}, true);
    check_step<Gradient, Weight>(n, {3, 3, 3, 3, 3}, true);
    check_step<Gradient, Weight>(n, {2, 2, 2, 2, 0}, false);
  }
  // Any array may begin elsewhere.
  for (const Begins& begins :
       {Begins{1, 0, 0, 0, 0}, {0, 1, 0, 0, 0}, {0, 0, 1, 0, 0}, {0, 0, 0, 1, 0}, {0, 0, 0, 0, 1}})
    check_step<Gradient, Weight>(30, begins, true);
}

}  // namespace

TEST_CASE("A GPU's step of AdamW has the bits of the operations in their order, and is float64's up to rounding") {
  check_steps<float, __nv_bfloat16>();
  check_steps<float, __half>();
  check_steps<__nv_bfloat16, __nv_bfloat16>();
  check_steps<__half, __half>();
  check_steps<__half, __nv_bfloat16>();
  check_steps<__nv_bfloat16, __half>();
}

TEST_CASE("A GPU's step of AdamW of many tensors, some of which decay, is one kernel for hundreds of them") {
  const ThreadOrder order(GENERATE(thread_orders()));
  const auto launches_of = [](std::size_t count, std::size_t shortest, const Begins& begins) {
    Changes changes{count % 2 == 0, {}};
    std::mt19937 engine{static_cast<unsigned>(count)};
    std::size_t n = 1;
    for (std::size_t i = 0; i < count; ++i) {
      changes.at.push_back(static_cast<std::int64_t>(n));
      n += shortest + engine() % 9;
    }
    const std::uint64_t before = cuda_on_host::counts.launches;
    check_step<__nv_bfloat16, __nv_bfloat16>(n, begins, true, changes);
    return cuda_on_host::counts.launches - before;
  };
  CHECK(launches_of(1, 1, {}) == 1);
  CHECK(launches_of(2, 300, {3, 3, 3, 3, 3}) == 1);
  CHECK(launches_of(77, 1, {1, 1, 1, 1, 1}) == 1);
  CHECK(launches_of(78, 1, {0, 1, 0, 0, 0}) == 1);
  // A kernel's parameters hold 498 changes, and the next part begins with one.
  CHECK(launches_of(498, 1, {}) == 1);
  CHECK(launches_of(499, 1, {}) == 2);
  CHECK(launches_of(997, 1, {2, 2, 2, 2, 2}) == 2);
  CHECK(launches_of(1300, 1, {}) == 3);
  // None of whose weights decay, empty tensors, and a last one of one element.
  check_step<float, __half>(30, {}, true, {false, {}});
  check_step<float, __half>(30, {}, true, {true, {0, 7, 7, 29}});
  check_step<float, __half>(30, {}, true, {true, {5, 5, 5, 30}});
}

TEST_CASE("The tensor of an element is found also where there are more than 2^31") {
  const std::int64_t ends[]{3, 3, std::int64_t{1} << 31, (std::int64_t{1} << 31) + 1, std::int64_t{1} << 40};
  const auto tensor_of = [&](std::int64_t element) { return count_until(ends, 5, element); };
  CHECK(tensor_of(0) == 0);
  CHECK(tensor_of(2) == 0);
  CHECK(tensor_of(3) == 2);
  CHECK(tensor_of((std::int64_t{1} << 31) - 1) == 2);
  CHECK(tensor_of(std::int64_t{1} << 31) == 3);
  CHECK(tensor_of((std::int64_t{1} << 31) + 1) == 4);
  CHECK(tensor_of((std::int64_t{1} << 40) - 1) == 4);
  CHECK(tensor_of(std::int64_t{1} << 40) == 5);
  CHECK(count_until(ends, 0, 7) == 0);
}

}  // namespace llmtrain::kernels
