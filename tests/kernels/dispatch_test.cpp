// SPDX-License-Identifier: Apache-2.0
#include "kernels/moe/dispatch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <optional>

#include "kernels/vector/dispatch.h"
#include "kernels/vector_dispatch.h"
#include "tests/kernels/tensor_error.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

ExpertRows random_map(std::int64_t tokens, std::int64_t experts, std::int64_t k, std::optional<std::int64_t> capacity) {
  const at::Tensor scores = at::rand({tokens, experts}, test_generator(), at::kFloat);
  return assign_rows(top_experts(scores, k).experts, experts, capacity);
}

at::ScalarType gate_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

// Calls `visit(token, choice of the token, row)` for each choice that has a row: the definitions below are loops.
template <class Visit>
void for_each_choice(const ExpertRows& map, Visit visit) {
  for (std::int64_t t = 0; t < map.row_of.size(0); ++t)
    for (std::int64_t j = 0; j < map.row_of.size(1); ++j)
      if (const auto row = map.row_of[t][j].item<std::int64_t>(); row >= 0) visit(t, j, row);
}

// Sums of at most k + H products of normal numbers in fp32, and one rounding of the result.
double tolerance(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return 1e-13;
    case at::kBFloat16:
      return bf16_rounding;
    default:
      return 200 * fp32_rounding;
  }
}

struct Case {
  int tokens, experts, k, width;
  std::optional<std::int64_t> capacity;
};

const std::vector<Case> cases{
    {1, 1, 1, 1, {}}, {9, 4, 2, 37, {}}, {40, 8, 3, 300, 6}, {25, 5, 1, 64, 2}, {12, 3, 2, 16, 0}};

TEST_CASE("dispatch copies a token's row to each of its experts, and sums their gradients") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  for (const Case& c : cases) {
    INFO(c.tokens << " tokens, " << c.experts << " experts");
    const ExpertRows map = random_map(c.tokens, c.experts, c.k, c.capacity);
    const at::Tensor x = random_tensor({c.tokens, c.width}, type), drows = random_tensor({map.rows(), c.width}, type);
    const at::Tensor rows = dispatch_forward(x, map), dx = dispatch_backward(drows, map);
    at::Tensor want = at::zeros({c.tokens, c.width}, at::kDouble);
    for_each_choice(map, [&](std::int64_t t, std::int64_t, std::int64_t row) {
      REQUIRE(at::equal(rows[row], x[t]));
      want[t].add_(drows[row]);
    });
    CHECK(rows.size(0) == map.rows());
    CHECK(dx.scalar_type() == type);
    CHECK(largest_error(dx, want) <= tolerance(type));
  }
}

TEST_CASE("combine weighs experts' outputs by gates") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  for (const Case& c : cases) {
    INFO(c.tokens << " tokens, " << c.experts << " experts");
    const ExpertRows map = random_map(c.tokens, c.experts, c.k, c.capacity);
    const at::Tensor rows = random_tensor({map.rows(), c.width}, type), dy = random_tensor({c.tokens, c.width}, type);
    const at::Tensor gates = at::rand({c.tokens, c.k}, test_generator(), gate_type(type));
    const at::Tensor y = combine_forward(rows, gates, map);
    const CombineGradients gradients = combine_backward(dy, rows, gates, map);

    const at::Tensor exact = rows.to(at::kDouble), exact_gates = gates.to(at::kDouble), exact_dy = dy.to(at::kDouble);
    at::Tensor want = at::zeros_like(exact_dy), drows = at::zeros_like(exact), dgates = at::zeros_like(exact_gates);
    for_each_choice(map, [&](std::int64_t t, std::int64_t j, std::int64_t row) {
      want[t].add_(exact_gates[t][j] * exact[row]);
      drows[row].copy_(exact_gates[t][j] * exact_dy[t]);
      dgates[t][j].copy_((exact_dy[t] * exact[row]).sum());
    });
    CHECK(largest_error(y, want) <= tolerance(type));
    CHECK(gradients.rows.scalar_type() == type);
    if (map.rows() > 0) CHECK(largest_error(gradients.rows, drows) <= tolerance(type));
    // Never rounded to bf16.
    CHECK(largest_error(gradients.gates, dgates) <= tolerance(gate_type(type)));
  }
}

TEST_CASE("dispatch and combine are bitwise the same with one and two threads") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const ExpertRows map = random_map(300, 8, 2, 60);
  const at::Tensor x = random_tensor({300, 129}, type), rows = random_tensor({map.rows(), 129}, type);
  const at::Tensor gates = at::rand({300, 2}, test_generator(), at::kFloat);
  const auto same = [](auto make) { return at::equal(with_threads(1, make), with_threads(2, make)); };
  CHECK(same([&] { return dispatch_forward(x, map); }));
  CHECK(same([&] { return dispatch_backward(rows, map); }));
  CHECK(same([&] { return combine_forward(rows, gates, map); }));
  CHECK(same([&] { return combine_backward(x, rows, gates, map).rows; }));
  CHECK(same([&] { return combine_backward(x, rows, gates, map).gates; }));
}

TEST_CASE("dispatch and combine are correct at every instruction-set level") {
  const ExpertRows map = random_map(50, 6, 2, 12);
  const at::Tensor x = random_tensor({50, 300}, at::kFloat), rows = random_tensor({map.rows(), 300}, at::kFloat);
  const at::Tensor gates = at::rand({50, 2}, test_generator(), at::kFloat);
  const auto* choice_of = map.choice_of.const_data_ptr<std::int64_t>();
  const auto* row_of = map.row_of.const_data_ptr<std::int64_t>();
  const CombineGradients want = combine_backward(x, rows, gates, map);
  at_every_level([&]<int level> {
    const auto loops = vector::dispatch_kernels_for<level, float>();
    const at::Tensor copied = at::empty_like(rows), y = at::empty_like(x);
    CombineGradients got{at::empty_like(rows), at::zeros_like(gates)};
    loops.copy({elements<float>(x), choice_of, mutable_elements<float>(copied), map.rows(), 2, 300});
    loops.sum({elements<float>(rows), elements<float>(gates), row_of, mutable_elements<float>(y), 50, 2, 300});
    loops.sum_backward({elements<float>(x), elements<float>(rows), elements<float>(gates), choice_of,
                        mutable_elements<float>(got.rows), mutable_elements<float>(got.gates), map.rows(), 2, 300});
    INFO("level " << level);
    CHECK(at::equal(copied, dispatch_forward(x, map)));
    // Levels differ in the fusion of additions and the number of lanes.
    CHECK(largest_error(y, combine_forward(rows, gates, map)) < tolerance(at::kFloat));
    CHECK(at::equal(got.rows, want.rows));
    CHECK(largest_error(got.gates, want.gates) < tolerance(at::kFloat));
  });
}

}  // namespace
}  // namespace llmtrain::kernels
