// SPDX-License-Identifier: Apache-2.0
#include "kernels/joined_heads.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>

namespace llmtrain::kernels {
namespace {

constexpr std::int64_t sequences = 2, length = 3, heads = 4, kv_heads = 2, width = 6;

// As they come from attention by heads, whose tokens lie a sequence apart.
HeadGradients by_heads(at::ScalarType type) {
  const auto make = [&](std::int64_t count) {
    return at::randn({sequences, count, length, width}).to(type).transpose(1, 2);
  };
  return {make(heads), make(kv_heads), make(kv_heads)};
}

at::Tensor joined_of(const HeadGradients& d, const RopeTable* table, std::int64_t sequence_length) {
  const at::Tensor joined = at::empty({sequences, length, heads + 2 * kv_heads, width}, d.query.options());
  join_heads(d, table, sequence_length, joined);
  return joined;
}

}  // namespace

TEST_CASE("gradients of heads are joined in the order of the projection") {
  const HeadGradients d = by_heads(at::kBFloat16);
  CHECK(at::equal(joined_of(d, nullptr, length), at::cat({d.query, d.key, d.value}, 2)));
}

TEST_CASE("joined gradients of queries and keys are rotated back, each token by its own angles") {
  const HeadGradients d = by_heads(at::kFloat);
  // A row of angles per position of a sequence, or per token of all.
  const std::int64_t rows = GENERATE(std::int64_t{3}, std::int64_t{6});
  const RopeTable table = make_rope_table(rows, width, 100, at::kCPU);
  at::Tensor expected = at::cat({d.query, d.key, d.value}, 2);
  at::Tensor rotated = expected.view({-1, heads + 2 * kv_heads, width}).narrow(1, 0, heads + kv_heads);
  rope_(rotated, table, rows, RopeDirection::backward);
  CHECK(at::equal(joined_of(d, &table, rows), expected));
}

}  // namespace llmtrain::kernels
