// SPDX-License-Identifier: Apache-2.0
// The kernel for the gradients of experts' weights, run on the processor, against one rounding of the sum.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/moe/group_gradient_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

// Experts 0 and 2 have no rows, and NaN as their products.
template <class T, class Gradient>
void check(std::size_t experts, std::size_t size, std::size_t shift, bool adds) {
  INFO(experts << " experts of " << size << ", adds " << adds);
  std::mt19937 engine{2};
  const Numbers<T> products(experts * size, shift);
  const Numbers<Gradient> gradients(experts * size);
  const test::ExactArray<int> ends(experts);
  products.fill(engine);
  gradients.fill(engine);
  const auto is_empty = [](std::size_t expert) { return expert == 0 || expert == 2; };
  int end = 0;
  for (std::size_t e = 0; e < experts; ++e) ends[e] = end += is_empty(e) ? 0 : 3;
  std::vector<double> want;
  for (std::size_t i = 0; i < experts * size; ++i) {
    if (is_empty(i / size)) products.data()[i] = narrowed<T>(NAN);
    const float before = adds ? widened(gradients.data()[i]) : 0;
    const float sum = before + (is_empty(i / size) ? 0 : widened(products.data()[i]));
    want.push_back(static_cast<double>(widened(narrowed<Gradient>(sum))));
  }
  cuda_group_gradient_kernels.store({kind_of<T>, kind_of<Gradient>, products.data(), ends.data(), gradients.data(),
                                     static_cast<int>(experts), static_cast<std::int64_t>(size), adds},
                                    nullptr);
  CHECK(gradients.copied() == want);
  CHECK_FALSE(gradients.has_overrun());
}

template <class T, class Gradient>
void check_sizes() {
  for (const bool adds : {false, true}) {
    check<T, Gradient>(1, 8, 0, adds);
    check<T, Gradient>(4, 37, 0, adds);
    check<T, Gradient>(5, 2056, 0, adds);
    check<T, Gradient>(3, 24, 1, adds);
    check<T, Gradient>(2, 0, 0, adds);
  }
}

}  // namespace

TEST_CASE("A GPU adds experts' products to their gradients, and nothing where an expert has no rows") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("bf16 to fp32") { check_sizes<__nv_bfloat16, float>(); }
  SECTION("bf16") { check_sizes<__nv_bfloat16, __nv_bfloat16>(); }
  SECTION("fp16 to fp32") { check_sizes<__half, float>(); }
  SECTION("fp32") { check_sizes<float, float>(); }
}

}  // namespace llmtrain::kernels
