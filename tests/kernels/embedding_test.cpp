// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "kernels/row_groups.h"
#include "kernels/vector/embedding.h"
#include "kernels/vector_dispatch.h"
#include "tests/kernels/tensor_error.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

at::Tensor random_tokens(std::int64_t count, std::int64_t vocabulary) {
  return at::randint(vocabulary, {count}, test_generator(), at::kLong);
}

// The definition, row by row.
void add_rows_one_by_one(at::Tensor& gradient, const at::Tensor& dy, const std::vector<std::int64_t>& targets) {
  for (std::size_t t = 0; t < targets.size(); ++t) gradient[targets[t]].add_(dy[static_cast<std::int64_t>(t)]);
}

std::vector<std::int64_t> values_of(const at::Tensor& tokens) {
  const auto* first = tokens.const_data_ptr<std::int64_t>();
  return {first, first + tokens.numel()};
}

std::vector<std::int64_t> positions_of(std::int64_t count, std::int64_t sequence_length) {
  std::vector<std::int64_t> positions;
  for (std::int64_t t = 0; t < count; ++t) positions.push_back(t % sequence_length);
  return positions;
}

struct Gradients {
  at::Tensor table;
  at::Tensor positions;
};

Gradients backward(const at::Tensor& dy, const at::Tensor& tokens, const Gradients& before, std::int64_t length) {
  Gradients result{before.table.clone(), before.positions.clone()};
  embedding_backward(dy, tokens, result.table, result.positions, length);
  return result;
}

TEST_CASE("rows are grouped by target in ascending order, stably") {
  const std::vector<std::int64_t> ids{70000, 3, 70000, 0, 3, 300, 3};
  const RowGroups groups = group_rows(ids.data(), static_cast<std::int64_t>(ids.size()));
  CHECK(groups.targets == std::vector<std::int64_t>{0, 3, 300, 70000});
  CHECK(groups.offsets == std::vector<std::int64_t>{0, 1, 4, 5, 7});
  CHECK(groups.order == std::vector<std::int64_t>{3, 1, 4, 6, 5, 0, 2});
}

TEST_CASE("grouping nothing gives no group") {
  const RowGroups groups = group_rows(nullptr, 0);
  CHECK(groups.targets.empty());
  CHECK(groups.offsets == std::vector<std::int64_t>{0});
}

TEST_CASE("rows are grouped by their position in the period") {
  const RowGroups groups = group_rows_by_period(5, 3);
  CHECK(groups.targets == std::vector<std::int64_t>{0, 1, 2});
  CHECK(groups.offsets == std::vector<std::int64_t>{0, 2, 4, 5});
  CHECK(groups.order == std::vector<std::int64_t>{0, 3, 1, 4, 2});
  CHECK(group_rows_by_period(2, 100).targets == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("the forward looks rows up and adds positions") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble, at::kHalf);
  const auto width = GENERATE(1, 37, 64);
  const at::Tensor table = random_tensor({50, width}, type);
  const at::Tensor positions = random_tensor({8, width}, type);
  const at::Tensor tokens = random_tokens(24, 50);
  const at::Tensor plain = embedding_forward(tokens, table, std::nullopt, 8);
  const at::Tensor sum = embedding_forward(tokens, table, positions, 8);
  for (std::int64_t t = 0; t < 24; ++t) {
    const at::Tensor row = table[tokens[t].item<std::int64_t>()];
    REQUIRE(at::equal(plain[t], row));
    REQUIRE(at::equal(sum[t], row + positions[t % 8]));
  }
}

TEST_CASE("the fp32 backward is bitwise equal to adding row by row") {
  const auto [count, vocabulary, width, length] =
      GENERATE(table<int, int, int, int>({{1, 1, 1, 1}, {40, 7, 37, 10}, {300, 50257, 64, 300}, {200, 1, 300, 64}}));
  const at::Tensor dy = random_tensor({count, width}, at::kFloat);
  const at::Tensor tokens = random_tokens(count, vocabulary);
  const Gradients before{random_tensor({vocabulary, width}, at::kFloat), random_tensor({length, width}, at::kFloat)};
  const Gradients got = backward(dy, tokens, before, length);
  Gradients want{before.table.clone(), before.positions.clone()};
  add_rows_one_by_one(want.table, dy, values_of(tokens));
  add_rows_one_by_one(want.positions, dy, positions_of(count, length));
  CHECK(at::equal(got.table, want.table));
  CHECK(at::equal(got.positions, want.positions));
}

TEST_CASE("bf16 gradients are summed in fp32, whatever the gradient's type") {
  const auto gradient_type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor dy = random_tensor({500, 70}, at::kBFloat16);
  const at::Tensor tokens = random_tokens(500, 3);
  const Gradients before{random_tensor({3, 70}, gradient_type), random_tensor({5, 70}, gradient_type)};
  const Gradients got = backward(dy, tokens, before, 5);
  Gradients want{before.table.to(at::kDouble), before.positions.to(at::kDouble)};
  add_rows_one_by_one(want.table, dy.to(at::kDouble), values_of(tokens));
  add_rows_one_by_one(want.positions, dy.to(at::kDouble), positions_of(500, 5));
  // About 170 additions of sums below 64, then one rounding. Sums in bf16 would be off by several per cent.
  const double tolerance = 1000 * fp32_rounding + (gradient_type == at::kFloat ? 0 : bf16_rounding);
  CHECK(largest_error(got.table, want.table) < tolerance);
  CHECK(largest_error(got.positions, want.positions) < tolerance);
}

TEST_CASE("without positions only the token table is changed, and only in the rows of tokens") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor tokens = at::tensor({5, 2, 5}, at::kLong);
  at::Tensor table = at::full({9, 4}, NAN, type);
  table[5].zero_();
  table[2].zero_();
  embedding_backward(at::ones({3, 4}, type), tokens, table, std::nullopt, 3);
  CHECK(table[5].eq(2).all().item<bool>());
  CHECK(table[2].eq(1).all().item<bool>());
  CHECK(table.isnan().sum().item<std::int64_t>() == 7 * 4);
}

TEST_CASE("float64 gradients use the generic path") {
  const at::Tensor dy = random_tensor({30, 6}, at::kDouble);
  const at::Tensor tokens = random_tokens(30, 4);
  const Gradients before{at::zeros({4, 6}, at::kDouble), at::zeros({7, 6}, at::kDouble)};
  const Gradients got = backward(dy, tokens, before, 7);
  Gradients want{before.table.clone(), before.positions.clone()};
  add_rows_one_by_one(want.table, dy, values_of(tokens));
  add_rows_one_by_one(want.positions, dy, positions_of(30, 7));
  CHECK(largest_error(got.table, want.table) < 1e-13);
  CHECK(largest_error(got.positions, want.positions) < 1e-13);
}

TEST_CASE("embeddings are bitwise the same with one and two threads") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor dy = random_tensor({600, 129}, type);
  const at::Tensor tokens = random_tokens(600, 40);
  const at::Tensor table = random_tensor({40, 129}, type);
  const at::Tensor positions = random_tensor({100, 129}, type);
  const auto forward = [&] { return embedding_forward(tokens, table, positions, 100); };
  const auto gradients = [&] { return backward(dy, tokens, {at::zeros({40, 129}), at::zeros({100, 129})}, 100); };
  CHECK(at::equal(with_threads(1, forward), with_threads(2, forward)));
  const Gradients one = with_threads(1, gradients);
  const Gradients two = with_threads(2, gradients);
  CHECK(at::equal(one.table, two.table));
  CHECK(at::equal(one.positions, two.positions));
}

TEST_CASE("embeddings are correct at every instruction-set level") {
  const at::Tensor dy = random_tensor({20, 300}, at::kFloat);
  const at::Tensor tokens = random_tokens(20, 6);
  const at::Tensor table = random_tensor({6, 300}, at::kFloat);
  const RowGroups groups = group_rows(tokens.const_data_ptr<std::int64_t>(), 20);
  at::Tensor want = at::zeros({6, 300});
  add_rows_one_by_one(want, dy, values_of(tokens));
  at_every_level([&]<int level> {
    const auto kernels = vector::embedding_kernels_for<level, float>();
    const at::Tensor y = at::empty({20, 300});
    const at::Tensor gradient = at::zeros({6, 300});
    kernels.forward({tokens.const_data_ptr<std::int64_t>(), elements<float>(table), elements<float>(table),
                     mutable_elements<float>(y), 20, 300, 6});
    kernels.add_rows_fp32({elements<float>(dy), mutable_elements<float>(gradient), groups.targets.data(),
                           groups.offsets.data(), groups.order.data(), static_cast<std::int64_t>(groups.targets.size()),
                           300});
    INFO("level " << level);
    CHECK(at::equal(gradient, want));
    CHECK(at::equal(y, embedding_forward(tokens, table, table, 6)));
  });
}

TEST_CASE("ids outside the vocabulary are named and refused before anything is read or written") {
  const at::Tensor table = at::zeros({10, 4});
  const auto bad = GENERATE(10, -1, 1 << 30);
  const at::Tensor tokens = at::tensor({1, 2, bad}, at::kLong);
  CHECK_THROWS_WITH(embedding_forward(tokens, table, std::nullopt, 3),
                    Catch::Contains("token 2") && Catch::Contains(std::to_string(bad)) && Catch::Contains("10"));
  at::Tensor gradient = table.clone();
  CHECK_THROWS_AS(embedding_backward(at::ones({3, 4}), tokens, gradient, std::nullopt, 3), Error);
  CHECK(at::equal(gradient, table));
}

TEST_CASE("sequences longer than the position table are refused") {
  const at::Tensor tokens = random_tokens(8, 10);
  const at::Tensor table = at::zeros({10, 4});
  CHECK_THROWS_AS(embedding_forward(tokens, table, at::zeros({4, 4}), 8), Error);
  CHECK_THROWS_AS(embedding_forward(tokens, table, at::zeros({4, 4}), 0), Error);
  CHECK_NOTHROW(embedding_forward(tokens, table, at::zeros({4, 4}), 4));
}

}  // namespace
}  // namespace llmtrain::kernels
