// SPDX-License-Identifier: Apache-2.0
#include "kernels/sequence_part.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>

#include <catch2/catch.hpp>
#include <vector>

#include "core/base/error.h"
#include "kernels/random/dropout.h"
#include "kernels/rope.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

const SequencePart part{20, {{2, 3}, {11, 5}, {19, 1}}};

// Rows of the part, dimension 1 of [groups, 20, …].
at::Tensor cut(const at::Tensor& x) {
  return at::cat(std::vector<at::Tensor>{x.narrow(1, 2, 3), x.narrow(1, 11, 5), x.narrow(1, 19, 1)}, 1);
}

TEST_CASE("without runs a part is the whole") {
  const SequencePart whole;
  CHECK((whole.runs_of(7) == std::vector<PositionRun>{{0, 7}}));
  CHECK(whole.whole_of(7) == 7);
  at::Tensor table = random_tensor({7, 2}, at::kFloat);
  CHECK(rows_at(table, whole, 5).is_alias_of(table));
}

TEST_CASE("runs that do not fit are refused") {
  CHECK((part.runs_of(9) == part.runs));
  CHECK(part.whole_of(9) == 20);
  CHECK_THROWS_AS(part.runs_of(8), Error);
  CHECK_THROWS_AS((SequencePart{20, {{2, 3}, {4, 5}}}.runs_of(8)), Error);
  CHECK_THROWS_AS((SequencePart{20, {{2, 3}, {18, 3}}}.runs_of(6)), Error);
  CHECK_THROWS_AS((SequencePart{20, {{-1, 3}}}.runs_of(3)), Error);
  CHECK_THROWS_AS((SequencePart{20, {{0, 3}, {3, 0}}}.runs_of(3)), Error);
}

TEST_CASE("rows of a part are read from its positions and written back there") {
  const at::Tensor before = random_tensor({24, 3}, at::kFloat);
  at::Tensor table = before.clone();
  const at::Tensor rows = rows_at(table, part, 9);
  CHECK(at::equal(rows, cut(before.unsqueeze(0)).squeeze(0)));
  store_rows_at(table, part, rows * 2);
  CHECK(at::equal(rows_at(table, part, 9), rows * 2));
  for (const std::int64_t untouched : {0, 1, 5, 10, 16, 18, 20, 23})
    CHECK(at::equal(table.select(0, untouched), before.select(0, untouched)));
}

TEST_CASE("rows are at their positions in the whole") {
  const SequencePart two{20, {{2, 3}, {11, 5}}};
  CHECK((rows_in_whole(two, 8, 0, 16) == std::vector<RowRun>{{0, 2, 3}, {3, 11, 5}, {8, 22, 3}, {11, 31, 5}}));
  CHECK((rows_in_whole(two, 8, 4, 6) == std::vector<RowRun>{{0, 12, 4}, {4, 22, 2}}));
  CHECK((rows_in_whole(two, 8, 9, 1) == std::vector<RowRun>{{0, 23, 1}}));
  CHECK((rows_in_whole({}, 8, 3, 21) == std::vector<RowRun>{{0, 3, 21}}));
}

TEST_CASE("dropout of a part's rows is the part of the dropout") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const Dropout dropout{0.4, 77, 12};
  const std::int64_t first = GENERATE(0, 4, 13);
  at::Tensor whole = random_tensor({3, 20, 5}, type);
  at::Tensor rows = cut(whole).view({27, 5}).slice(0, first).clone();
  dropout_(whole, dropout);
  dropout_rows_(rows, dropout, {part, 9, first});
  CHECK(at::equal(rows, cut(whole).view({27, 5}).slice(0, first)));
}

TEST_CASE("dropout of a part of some heads is that of the whole of all heads") {
  const Dropout dropout{0.4, 77, 12};
  at::Tensor whole = random_tensor({2, 6, 20, 5}, at::kFloat);  // [samples, heads, positions, width]
  at::Tensor rows = cut(whole.narrow(1, 2, 3).reshape({6, 20, 5})).reshape({54, 5});
  dropout_(whole, dropout);
  Dropout of_heads = dropout;
  of_heads.first_element += 2 * 20 * 5;
  of_heads.run = 3 * 20 * 5;
  of_heads.stride = 6 * 20 * 5;
  dropout_rows_(rows, of_heads, {part, 9});
  CHECK(at::equal(rows, cut(whole.narrow(1, 2, 3).reshape({6, 20, 5})).reshape({54, 5})));
}

TEST_CASE("rotations of a part are the part of the rotation") {
  const RopeTable table = make_rope_table(24, 8, 10000, at::kCPU);
  const at::Tensor x = random_tensor({2, 20, 3, 8}, at::kFloat);
  at::Tensor whole = x.clone().view({40, 3, 8}), rows = cut(x).view({18, 3, 8});
  rope_(whole, table, 20, RopeDirection::forward);
  rope_(rows, rope_rows(table, part, 9), 9, RopeDirection::forward);
  CHECK(at::equal(rows, cut(whole.view({2, 20, 3, 8})).view({18, 3, 8})));
}

}  // namespace
}  // namespace llmtrain::kernels
