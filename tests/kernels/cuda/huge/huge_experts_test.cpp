// SPDX-License-Identifier: Apache-2.0
// The kernels of mixtures of experts over more than 2³¹ elements.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>

#include "kernels/cuda/moe/dispatch_kernels.h"
#include "kernels/cuda/moe/group_gradient_kernels.h"
#include "kernels/cuda/moe/load_importance_kernels.h"
#include "kernels/cuda/moe/routing_kernels.h"
#include "tests/kernels/cuda/huge/huge_rows.h"

namespace llmtrain::kernels {
namespace {

using Element = __nv_bfloat16;
using Indices = HugeRows<std::int64_t>;
using Floats = HugeRows<float>;
constexpr KernelElement element = KernelElement::bf16;
constexpr std::int64_t ends = 3;

// What routers have. Grids of warps, each of a token, are run through twice for so many.
constexpr int experts = 512, choices = 2;
constexpr std::int64_t routed = beyond_int / experts + ends;
constexpr Edges run_again{1, 0};

// The rows of the last tokens' choices, no two of which are the same; the other tokens at hand have none.
Indices last_choices(std::int64_t tokens, std::int64_t rows) {
  Indices row_of(tokens, choices);
  const std::int64_t count = tokens * choices;
  std::fill_n(row_of.data(), std::min<std::int64_t>(count, 4096), -1);
  for (std::int64_t i = 1; i <= ends * choices; ++i) row_of.from_end(i) = rows - i;
  return row_of;
}

}  // namespace

TEST_CASE("A GPU's passes between tokens and their experts' rows address more than 2^31 elements") {
  constexpr int width = 1024;
  check_last_rows(beyond_int / width + ends, ends, {1, 2}, [](std::int64_t tokens) {
    const std::int64_t rows = tokens * choices;
    const auto tokens_of = [&](unsigned seed) { return HugeRows<Element>(tokens, width, ends, seed); };
    const HugeRows<Element> x = tokens_of(1), dy = tokens_of(2), y(tokens, width), sent(rows, width),
                            drows(rows, width), results(rows, width, ends * choices, 3);
    const Indices row_of = last_choices(tokens, rows);
    const Floats gates(tokens, choices, ends, 4), dgates(tokens, choices);
    const ChoiceRows map{row_of.data(), tokens, rows, choices, width};
    cuda_dispatch_kernels.dispatch({element, map, x.data(), sent.data()}, nullptr);
    cuda_dispatch_kernels.combine({element, map, results.data(), gates.data(), y.data()}, nullptr);
    cuda_dispatch_kernels.combine_backward(
        {element, map, dy.data(), results.data(), gates.data(), drows.data(), dgates.data()}, nullptr);
    return joined({sent.last(ends * choices * width), y.last(ends * width), drows.last(ends * choices * width),
                   dgates.last(ends * choices)});
  });
}

TEST_CASE("A GPU's routing addresses more than 2^31 probabilities") {
  check_last_rows(routed, ends, {0, 1}, [](std::int64_t tokens) {
    const Floats logits(tokens, experts, ends, 1), probabilities(tokens, experts), scores(tokens, choices),
        gates(tokens, choices), log_sums(tokens, 1);
    const Indices chosen(tokens, choices);
    const HugeRows<double> partials(token_pieces(tokens), routing_columns(experts));
    cuda_routing_kernels.route({.logits = logits.data(),
                                .tokens = tokens,
                                .experts = experts,
                                .choices = choices,
                                .probabilities = probabilities.data(),
                                .chosen = chosen.data(),
                                .scores = scores.data(),
                                .gates = gates.data(),
                                .log_sums = log_sums.data(),
                                .partials = partials.data()},
                               nullptr);
    return joined({probabilities.last(ends * experts), chosen.last(ends * choices), gates.last(ends * choices),
                   log_sums.last(ends)});
  });
}

TEST_CASE("A GPU's gradient of a routing addresses more than 2^31 probabilities") {
  check_last_rows(routed, ends, run_again, [](std::int64_t tokens) {
    const Floats dgates(tokens, choices, ends, 1), probabilities(tokens, experts, ends, 2),
        gates(tokens, choices, ends, 3), log_sums(tokens, 1, ends, 4), dlogits(tokens, experts);
    const Indices chosen(tokens, choices);
    for (std::int64_t i = 1; i <= ends * choices; ++i) chosen.from_end(i) = experts - i;
    cuda_routing_kernels.route_backward({.dgates = dgates.data(),
                                         .probabilities = probabilities.data(),
                                         .chosen = chosen.data(),
                                         .gates = gates.data(),
                                         .log_sums = log_sums.data(),
                                         .log_sum_scale = 0.5F,
                                         .dlogits = dlogits.data(),
                                         .tokens = tokens,
                                         .experts = experts,
                                         .choices = choices},
                                        nullptr);
    return dlogits.last(ends * experts);
  });
}

TEST_CASE("A GPU's load and importance of experts address more than 2^31 logits") {
  check_last_rows(routed, ends, {0, 1}, [](std::int64_t tokens) {
    const Floats logits(tokens, experts, ends, 1), noisy(tokens, experts, ends, 2), thresholds(tokens, 1);
    const Indices chosen(tokens, choices);
    const HugeRows<double> partials(token_pieces(tokens), 2 * experts);
    cuda_load_importance_kernels.sums({.logits = logits.data(),
                                       .noisy = noisy.data(),
                                       .chosen = chosen.data(),
                                       .tokens = tokens,
                                       .experts = experts,
                                       .choices = choices,
                                       .deviation = 0.1F,
                                       .thresholds = thresholds.data(),
                                       .partials = partials.data()},
                                      nullptr);
    return thresholds.last(ends);
  });
}

TEST_CASE("A GPU's gradient of the load-importance loss addresses more than 2^31 logits") {
  check_last_rows(routed, ends, run_again, [](std::int64_t tokens) {
    const Floats logits(tokens, experts, ends, 1), thresholds(tokens, 1, ends, 2), slopes(2, experts, 2, 3),
        dlogits(tokens, experts);
    const Indices chosen(tokens, choices);
    cuda_load_importance_kernels.backward({.logits = logits.data(),
                                           .thresholds = thresholds.data(),
                                           .chosen = chosen.data(),
                                           .slopes = slopes.data(),
                                           .tokens = tokens,
                                           .experts = experts,
                                           .choices = choices,
                                           .deviation = 0.1F,
                                           .scale = 1,
                                           .dlogits = dlogits.data()},
                                          nullptr);
    return dlogits.last(ends * experts);
  });
}

TEST_CASE("A GPU's gradients of experts' weights address more than 2^31 elements") {
  constexpr int few = 3;
  // A multiple of what a grid takes at once, so that its last block has the last elements.
  constexpr std::int64_t whole_grids = 1 << 21;
  check_last_rows(beyond_int + whole_grids, whole_grids, {0, 1}, [](std::int64_t size) {
    constexpr std::int64_t last = 1000;
    const HugeRows<Element> products(few * size, 1, last, 1);
    const Floats gradients(few * size, 1, last, 2);
    const HugeRows<int> ends_of_rows(few, 1);
    for (int i = 0; i < few; ++i) ends_of_rows.data()[i] = i + 1;
    cuda_group_gradient_kernels.store(
        {element, KernelElement::fp32, products.data(), ends_of_rows.data(), gradients.data(), few, size, true},
        nullptr);
    return gradients.last(last);
  });
}

}  // namespace llmtrain::kernels
