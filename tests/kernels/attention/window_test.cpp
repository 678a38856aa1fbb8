// SPDX-License-Identifier: Apache-2.0
// Windows, sinks and scales of causal attention against a softmax over all pairs in float64 and PyTorch's autograd.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/cached_attention.h"
#include "tests/kernels/attention/attention_reference.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

constexpr std::int64_t length = 300, query_heads = 4, key_heads = 2, dim = 16;  // several blocks of the CPU's kernel

struct Variant {
  std::optional<std::int64_t> window{};
  std::optional<double> scale{};
  at::Tensor sinks{};
  std::vector<PositionRun> documents{};

  AttentionCall call(AttentionMethod method) const {
    AttentionCall call{method, {}, {}, {documents}};
    call.window = window;
    call.scale = scale;
    call.sinks = sinks;
    return call;
  }
};

// [S, S]: whether a query sees a key of the flat rows.
at::Tensor seen_by(const Variant& variant) {
  at::Tensor seen = at::zeros({length, length}, at::kBool);
  auto cells = seen.accessor<bool, 2>();
  for (const PositionRun& run : variant.documents.empty() ? std::vector<PositionRun>{{0, length}} : variant.documents)
    for (std::int64_t query = 0; query < run.length; ++query)
      for (std::int64_t key = 0; key <= query; ++key)
        cells[run.begin + query][run.begin + key] = !variant.window || query - key < *variant.window;
  return seen;
}

struct Expected {
  AttentionResult result;
  at::Tensor sinks;
};

Expected exact(const AttentionCase& given, const Variant& variant) {
  const AttentionCase x = given.as(at::kDouble);
  const auto leaf = [](const at::Tensor& t) { return t.detach().clone().requires_grad_(true); };
  const at::Tensor query = leaf(x.query), key = leaf(x.key), value = leaf(x.value);
  const at::Tensor sinks = variant.sinks.defined() ? leaf(variant.sinks.to(at::kDouble)) : at::Tensor();
  const auto whole = [](const at::Tensor& t) { return t.repeat_interleave(query_heads / t.size(2), 2); };
  at::Tensor scores = at::einsum("bqhd,bkhd->bhqk", {query, whole(key)}) * variant.scale.value_or(0.25);
  scores = scores.masked_fill(seen_by(variant).logical_not(), -std::numeric_limits<double>::infinity());
  if (sinks.defined()) scores = at::cat({scores, sinks.view({1, -1, 1, 1}).expand({scores.size(0), -1, length, 1})}, 3);
  const at::Tensor out = at::einsum("bhqk,bkhd->bqhd", {scores.softmax(3).narrow(3, 0, length), whole(value)});
  (out * x.dout).sum().backward();
  return {{out.detach(), query.grad(), key.grad(), value.grad(), {}}, sinks.defined() ? sinks.grad() : sinks};
}

AttentionCase windowed_case(at::ScalarType type) {
  const auto make = [&](std::int64_t heads) { return random_tensor({1, length, heads, dim}, type); };
  return {make(query_heads), make(key_heads), make(key_heads), make(query_heads), {}};
}

// Windows of one key, within a block of the CPU's kernel, longer than one, and longer than the sequence.
std::vector<Variant> variants() {
  const std::vector<PositionRun> documents{{0, 13}, {13, 200}, {213, 1}, {214, 86}};
  const at::Tensor sinks = at::tensor({-3.0, 0.5, 2.0, 9.0});
  return {{1},
          {7},
          {150, 0.4},
          {1000},
          {33, {}, {}, documents},
          {{}, {}, sinks},
          {20, 0.1, sinks},
          {20, {}, sinks, documents}};
}

}  // namespace

TEST_CASE("windows, sinks and scales equal float64's, with every gradient") {
  const auto method = GENERATE(AttentionMethod::flash, AttentionMethod::math);
  const auto type = GENERATE(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf);
  for (const Variant& variant : variants()) {
    INFO(c10::toString(type) << ", a window of " << variant.window.value_or(0));
    const AttentionCase x = windowed_case(type);
    const AttentionCall call = variant.call(method);
    const Expected want = exact(x, variant);
    // What sinks leave is rounded once more.
    check(run(x, call), want.result, 2 * tolerance_of(type));
    const AttentionOutput saved = attention_forward(x.query, x.key, x.value, call);
    const at::Tensor dsinks = attention_backward(x.dout, x.query, x.key, x.value, saved, call).sinks;
    REQUIRE(dsinks.defined() == want.sinks.defined());
    // Sums over all queries; with kept probabilities a sink's is what these, as rounded, leave of 1.
    if (dsinks.defined()) CHECK(largest_error(dsinks, want.sinks) < 16 * tolerance_of(type));
  }
}

TEST_CASE("a part of the queries sees the window of its positions") {
  const auto method = GENERATE(AttentionMethod::flash, AttentionMethod::math);
  const auto type = GENERATE(at::kDouble, at::kFloat);
  const Variant variant{40, {}, at::tensor({-1.0, 0.5, 2.0, 1.0})};
  AttentionCase x = windowed_case(type);
  const std::vector<PositionRun> runs{{10, 100}, {200, 60}};
  const auto part = [&](const at::Tensor& t) { return at::cat({t.narrow(1, 10, 100), t.narrow(1, 200, 60)}, 1); };
  const at::Tensor dout = at::zeros_like(x.dout);
  for (const PositionRun& rows : runs)
    dout.narrow(1, rows.begin, rows.length).copy_(x.dout.narrow(1, rows.begin, rows.length));
  x.dout = dout;
  AttentionResult want = exact(x, variant).result;
  want.out = part(want.out);
  want.query = part(want.query);
  AttentionCall call = variant.call(method);
  call.queries = {length, runs};
  const AttentionCase at_hand{part(x.query), x.key, x.value, part(x.dout), {}};
  check(run(at_hand, call), want, 2 * tolerance_of(type));
}

TEST_CASE("tokens that come one by one see the window and the sinks that whole sequences see") {
  const auto type = GENERATE(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf);
  for (const Variant& variant : variants()) {
    if (!variant.documents.empty()) continue;
    const AttentionCase x = windowed_case(type);
    const AttentionResult want = exact(x, variant).result;
    KeyValueMemory memory;
    memory.key = at::empty({1, key_heads, length, dim}, x.key.options());
    memory.value = at::empty_like(memory.key);
    const auto step = [&](std::int64_t first, std::int64_t count) {
      CachedTokens tokens;
      for (std::int64_t i = first; i < first + count; ++i) tokens.places.push_back({0, i});
      const auto rows = [&](const at::Tensor& t) { return t.squeeze(0).narrow(0, first, count); };
      const at::Tensor out = cached_attention(rows(x.query), rows(x.key), rows(x.value), tokens, memory,
                                              {AttentionMethod::flash, variant.window, variant.scale, variant.sinks});
      CHECK(largest_error(out, rows(want.out)) < 2 * tolerance_of(type));
    };
    step(0, 100);
    for (std::int64_t token = 100; token < 180; ++token) step(token, 1);
    step(180, length - 180);
  }
}

TEST_CASE("blocks in any order hold what one holds, bitwise, also of many sequences at once") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  constexpr std::int64_t block = 16, blocks = 2 * ((length + block - 1) / block);
  for (const Variant& variant : variants()) {
    if (!variant.documents.empty()) continue;
    const AttentionCase x = windowed_case(type);
    const auto memory_of = [&](std::int64_t count, std::int64_t tokens) {
      return KeyValueMemory{at::full({count, key_heads, tokens, dim}, 7, x.key.options()),
                            at::full({count, key_heads, tokens, dim}, -7, x.key.options())};
    };
    KeyValueMemory whole = memory_of(1, length), pages = memory_of(blocks, block);
    // Every other block backwards, and the rest for a sequence that has the same tokens one position later.
    std::vector<std::vector<std::int64_t>> tables(2);
    for (std::int64_t i = blocks - 1; i >= 0; --i) tables[static_cast<std::size_t>(i % 2)].push_back(i);
    const CachedAttentionCall call{AttentionMethod::flash, variant.window, variant.scale, variant.sinks};
    const auto step = [&](KeyValueMemory& memory, const std::vector<CachePlace>& places, const at::Tensor& rows) {
      CachedTokens tokens;
      tokens.places = places;
      if (&memory == &pages) tokens.blocks = tables;
      const auto part = [&](const at::Tensor& t) { return t.squeeze(0).index_select(0, rows); };
      return cached_attention(part(x.query), part(x.key), part(x.value), tokens, memory, call);
    };
    const auto places = [](std::int64_t sequence, std::int64_t first, std::int64_t count) {
      std::vector<CachePlace> result;
      for (std::int64_t i = first; i < first + count; ++i) result.push_back({sequence, i});
      return result;
    };
    const at::Tensor prompt = at::arange(100, at::kLong);
    CHECK(step(pages, places(1, 0, 100), prompt).equal(step(whole, places(0, 0, 100), prompt)));
    step(pages, places(0, 0, 101), at::arange(101, at::kLong));
    for (std::int64_t token = 100; token < 180; ++token) {
      const at::Tensor row = at::full({1}, token, at::kLong), both = at::arange(token, token + 2, at::kLong).flip(0);
      const at::Tensor out = step(pages, {{0, token + 1}, {1, token}}, both);
      CHECK(out.narrow(0, 1, 1).equal(step(whole, places(0, token, 1), row)));
    }
  }
}

TEST_CASE("keys outside a window change nothing, bitwise") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  AttentionCase x = windowed_case(type);
  const AttentionCall call = Variant{50}.call(AttentionMethod::flash);
  const at::Tensor before = attention_forward(x.query, x.key, x.value, call).out;
  x.key.narrow(1, 0, 100).fill_(77);
  x.value.narrow(1, 0, 100).fill_(-77);
  const at::Tensor after = attention_forward(x.query, x.key, x.value, call).out;
  CHECK(at::equal(before.narrow(1, 149, length - 149), after.narrow(1, 149, length - 149)));
  CHECK_FALSE(at::equal(before.select(1, 148), after.select(1, 148)));
}

}  // namespace llmtrain::kernels
