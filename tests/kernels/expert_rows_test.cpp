// SPDX-License-Identifier: Apache-2.0
#include "kernels/moe/expert_rows.h"

#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/kernels/tensor_error.h"
#include "tests/kernels/thread_count.h"

namespace llmtrain::kernels {
namespace {

using Indices = std::vector<std::int64_t>;

Indices values_of(const at::Tensor& x) {
  const auto* first = x.const_data_ptr<std::int64_t>();
  return {first, first + x.numel()};
}

// k different experts for each token.
at::Tensor random_choices(std::int64_t tokens, std::int64_t experts, std::int64_t k) {
  return top_experts(at::rand({tokens, experts}, test_generator(), at::kFloat), k).experts;
}

// The definition: who asks first has the first place, as long as there is one.
struct Served {
  std::vector<Indices> choices_of;  // each expert
  std::int64_t dropped = 0;
};

Served serve(const at::Tensor& experts, std::int64_t count, std::optional<std::int64_t> capacity,
             const Indices& order) {
  Served served;
  served.choices_of.resize(static_cast<std::size_t>(count));
  const std::int64_t k = experts.size(1);
  for (std::int64_t j = 0; j < k; ++j) {
    for (const std::int64_t t : order) {
      Indices& queue = served.choices_of[static_cast<std::size_t>(experts[t][j].item<std::int64_t>())];
      if (capacity && static_cast<std::int64_t>(queue.size()) == *capacity) {
        ++served.dropped;
      } else {
        queue.push_back(t * k + j);
      }
    }
  }
  return served;
}

void check_rows(const ExpertRows& map, Served served) {
  Indices choices, rows(static_cast<std::size_t>(map.choices()), -1);
  std::int64_t expert = 0;
  for (Indices& queue : served.choices_of) {
    CHECK(map.offsets[static_cast<std::size_t>(expert)] == static_cast<std::int64_t>(choices.size()));
    CHECK(map.rows_of(expert++) == static_cast<std::int64_t>(queue.size()));
    for (const std::int64_t choice : queue) {
      rows[static_cast<std::size_t>(choice)] = static_cast<std::int64_t>(choices.size());
      choices.push_back(choice);
    }
  }
  CHECK(values_of(map.choice_of) == choices);
  CHECK(values_of(map.row_of) == rows);
  CHECK(map.rows() == map.choices() - served.dropped);
}

Indices in_order(std::int64_t tokens) {
  Indices order(static_cast<std::size_t>(tokens));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST_CASE("the largest scores are chosen, best first, and of equal ones the lower expert") {
  const at::Tensor scores =
      at::tensor({0.1F, 0.5F, 0.5F, 0.2F, /**/ 3.0F, 3.0F, 3.0F, 3.0F, /**/ -4.0F, -3.0F, -2.0F, -1.0F}, at::kFloat)
          .view({3, 4});
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const TopExperts top = top_experts(scores.to(type), 3);
    CHECK(values_of(top.experts) == Indices{1, 2, 3, 0, 1, 2, 3, 2, 1});
    CHECK(at::equal(top.scores, scores.to(type).gather(1, top.experts)));
  }
}

TEST_CASE("different experts are chosen whatever is not a number") {
  const at::Tensor scores = at::tensor({NAN, NAN, NAN, /**/ NAN, 1.0F, NAN, /**/ 0.0F, NAN, 1.0F}, at::kFloat);
  const TopExperts top = top_experts(scores.view({3, 3}), 3);
  CHECK(values_of(top.experts) == Indices{0, 1, 2, 1, 0, 2, 2, 0, 1});
}

TEST_CASE("rows are in the order of experts, choices and tokens") {
  const auto [tokens, experts, k] =
      GENERATE(table<int, int, int>({{1, 1, 1}, {7, 4, 2}, {100, 8, 3}, {5, 64, 4}, {33, 3, 3}}));
  const at::Tensor chosen = random_choices(tokens, experts, k);
  for (const std::optional<std::int64_t> capacity : {std::optional<std::int64_t>(), {0}, {1}, {7}, {1000}}) {
    INFO(tokens << " tokens, " << experts << " experts, capacity " << capacity.value_or(-1));
    check_rows(assign_rows(chosen, experts, capacity), serve(chosen, experts, capacity, in_order(tokens)));
  }
}

TEST_CASE("a choice of no expert has no row, and takes no place") {
  const ExpertRows map = assign_rows(at::tensor({1, -1, -1, 0, 1, 1}, at::kLong).view({3, 2}), 2, 2);
  CHECK(map.offsets == Indices{0, 1, 3});
  CHECK(values_of(map.row_of) == Indices{1, -1, -1, 0, 2, -1});
  CHECK(values_of(map.choice_of) == Indices{3, 0, 4});
}

TEST_CASE("higher scores have the first places, equal ones the earlier token") {
  const at::Tensor chosen = random_choices(60, 6, 2);
  const at::Tensor scores = at::randint(5, {60}, test_generator(), at::kFloat);
  Indices order = in_order(60);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return scores[a].item<float>() > scores[b].item<float>(); });
  check_rows(assign_rows(chosen, 6, 9, scores), serve(chosen, 6, 9, order));
}

TEST_CASE("all tokens may choose one expert") {
  const at::Tensor chosen = at::randint(3, 4, {50, 1}, test_generator(), at::kLong);
  const ExpertRows map = assign_rows(chosen, 5, std::nullopt);
  CHECK(map.offsets == Indices{0, 0, 0, 0, 50, 50});
  CHECK(assign_rows(chosen, 5, 20).rows() == 20);
}

TEST_CASE("choices are the same with one and two threads") {
  const at::Tensor scores = random_tensor({2000, 16}, at::kFloat);
  const auto choose = [&] { return top_experts(scores, 2).experts; };
  CHECK(at::equal(with_threads(1, choose), with_threads(2, choose)));
}

}  // namespace
}  // namespace llmtrain::kernels
