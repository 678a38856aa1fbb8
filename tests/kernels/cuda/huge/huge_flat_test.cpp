// SPDX-License-Identifier: Apache-2.0
// The kernels over flat memory, of optimizers and of random numbers, with more than 2³¹ elements.
#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>

#include "kernels/cuda/dropout_kernels.h"
#include "kernels/cuda/fp8/scaled_adamw_kernels.h"
#include "kernels/cuda/moe/jitter_kernels.h"
#include "kernels/cuda/optimizer/adamw_kernels.h"
#include "kernels/cuda/optimizer/muon_kernels.h"
#include "kernels/cuda/optimizer/squares_kernels.h"
#include "tests/kernels/cuda/huge/huge_rows.h"

namespace llmtrain::kernels {
namespace {

using Element = __nv_bfloat16;
using Floats = HugeRows<float>;
constexpr KernelElement element = KernelElement::bf16;
constexpr std::int64_t ends = 1000, huge = beyond_int + ends;
// Where a grid is run through again, its first block has the last elements.
constexpr Edges edges{1, 1};
constexpr AdamwConstants step{1, 0.9F, 0.1F, 0.99F, 0.01F, 0.1F, 1e-8F, 0.01F};

Floats random_floats(std::int64_t n, unsigned seed) { return {n, 1, ends, seed}; }

}  // namespace

TEST_CASE("A GPU's dropout and jitter have random numbers of their own for more than 2^31 elements") {
  check_last_rows(huge, ends, edges, [](std::int64_t n) {
    const HugeRows<Element> x(n, 1, ends, 1), residual(n, 1, ends, 2), dropped(n, 1);
    const Floats jittered(n, 1);
    // The small array is the end of the large one.
    const std::int64_t first = huge - n;
    cuda_dropout_kernels.drop({.element = element,
                               .x = x.data(),
                               .residual = residual.data(),
                               .out = dropped.data(),
                               .length = n,
                               .runs = 1,
                               .first = first,
                               .stride = n,
                               .key = 9,
                               .threshold = 1U << 30,
                               .scale = 2},
                              nullptr);
    cuda_jitter_kernels.jitter({element, x.data(), jittered.data(), n, 1, first, n, 11, 0.1}, nullptr);
    return joined({dropped.last(ends), jittered.last(ends)});
  });
}

TEST_CASE("A GPU's AdamW updates more than 2^31 elements, of which the last ones alone decay") {
  check_last_rows(huge, ends, edges, [](std::int64_t n) {
    const Floats weights = random_floats(n, 1), m = random_floats(n, 2), v(n, 1), gradients = random_floats(n, 3);
    const HugeRows<Element> copies(n, 1);
    const std::int64_t change = n - ends / 2;
    cuda_adamw_kernels.step({.weights = weights.data(),
                             .m = m.data(),
                             .v = v.data(),
                             .gradient = KernelElement::fp32,
                             .gradients = gradients.data(),
                             .compute_weight = element,
                             .compute_weights = copies.data(),
                             .n = n,
                             .first_decays = false,
                             .changes = &change,
                             .change_count = 1},
                            step, nullptr);
    return joined({weights.last(ends), m.last(ends), v.last(ends), copies.last(ends)});
  });
}

TEST_CASE("A GPU's AdamW of small states updates more than 2^31 elements") {
  check_last_rows(huge, ends, edges, [](std::int64_t n) {
    const HugeRows<__half> weights(n, 1, ends, 1), v(n, 1);
    const HugeRows<unsigned char> m(n, 1), gradients(n, 1);
    for (std::int64_t i = 1; i <= ends; ++i) gradients.from_end(i) = static_cast<unsigned char>(0x30 + i % 16);
    float one = 1;
    const Floats numbers(3, 1);
    const ScaledAdamwOperands tensor{.weights = {weights.data(), &one},
                                     .m = {m.data(), &one},
                                     .v = {v.data(), &one},
                                     .gradients = {gradients.data(), &one},
                                     .has_small_moments = true,
                                     .n = n,
                                     .decay = 0.9F,
                                     .numbers = numbers.data()};
    const ScaledAdamwArguments all{&tensor, 1, step};
    cuda_scaled_adamw_kernels.largest(all, nullptr);
    const Values largest = numbers.last(3);
    for (int i = 0; i < 3; ++i) numbers.data()[i] = 16;
    cuda_scaled_adamw_kernels.step(all, nullptr);
    return joined({largest, weights.last(ends), m.last(ends), v.last(ends)});
  });
}

TEST_CASE("A GPU's passes of Muon address more than 2^31 elements") {
  check_last_rows(huge, ends, edges, [](std::int64_t n) {
    const Floats mean = random_floats(n, 1), gradients = random_floats(n, 2), weights = random_floats(n, 3), wide(n, 1);
    const HugeRows<Element> narrow(n, 1), copies(n, 1);
    const double sum_of_squares = 4;
    cuda_muon_kernels.mean({mean.data(), KernelElement::fp32, gradients.data(), mean.data(), n, 0.9F, 0.1F}, nullptr);
    cuda_muon_kernels.normalize({mean.data(), &sum_of_squares, element, narrow.data(), n, 1e-7F}, nullptr);
    cuda_muon_kernels.scale({element, narrow.data(), wide.data(), n, 3}, nullptr);
    cuda_muon_kernels.step({weights.data(), wide.data(), element, copies.data(), n, 0.9F, 0.1F}, nullptr);
    return joined({mean.last(ends), narrow.last(ends), wide.last(ends), weights.last(ends), copies.last(ends)});
  });
}

TEST_CASE("A GPU's polynomial of Muon addresses a matrix of more than 2^31 elements") {
  // The last elements are those of the first blocks, as which the grid is run through again.
  constexpr std::int64_t side = 46341, last = side * side - beyond_int;
  static_assert(last > 0 && last < side);
  const HugeRows<Element> gram(side, side, 1, 1), square(side, side, 1, 2);
  const Values grams = gram.last(last), squares = square.last(last);
  const EdgeBlocks those({8, 0});
  cuda_muon_kernels.polynomial({element, gram.data(), square.data(), side, {3, 2, 0.5F}}, nullptr);
  const Values got = square.last(last);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double on_diagonal = i + 1 == got.size() ? 3 : 0;
    const double want = on_diagonal + 2 * grams[i] + 0.5 * squares[i];
    wrong += differs(got[i], want, rounding<Element> + 4 * rounding<float>);
  }
  CHECK(wrong == 0);
}

TEST_CASE("A GPU's sum of squares takes more than 2^31 elements") {
  check_last_rows(huge, ends, edges, [](std::int64_t n) {
    const Floats x = random_floats(n, 1);
    const HugeRows<double> partials(square_pieces(n), 1), sum(1, 1);
    cuda_squares_kernels.sum({KernelElement::fp32, x.data(), n, partials.data(), sum.data()}, nullptr);
    return sum.last(1);
  });
}

}  // namespace llmtrain::kernels
