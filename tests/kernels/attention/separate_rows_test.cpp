// SPDX-License-Identifier: Apache-2.0
// With SeparateRows attention of whole sequences has, token by token, the bits of tokens that come one by one.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/cached_attention.h"
#include "kernels/separate_rows.h"
#include "tests/kernels/attention/attention_reference.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels::rows_apart {
namespace {

// Heads that no vector divides, too.
constexpr std::int64_t sequences = 2, length = 75, query_heads = 4, key_heads = 2;

struct Variant {
  AttentionMethod method = AttentionMethod::flash;
  std::optional<std::int64_t> window{};
  at::Tensor sinks{};
  std::optional<double> scale{};
  std::int64_t dim = 16;
};

std::vector<Variant> variants() {
  const at::Tensor sinks = at::tensor({-3.0, 0.5, 2.0, 9.0});
  return {{},
          {.window = 22},
          {.window = 7, .sinks = sinks, .scale = 0.1},
          {.method = AttentionMethod::math, .sinks = sinks, .dim = 44}};
}

AttentionCase case_of(const Variant& variant, at::ScalarType type) {
  const auto make = [&](std::int64_t heads) { return random_tensor({sequences, length, heads, variant.dim}, type); };
  return {make(query_heads), make(key_heads), make(key_heads), make(query_heads), {}};
}

AttentionCall call_of(const Variant& variant) {
  AttentionCall call{variant.method};
  call.window = variant.window;
  call.sinks = variant.sinks;
  call.scale = variant.scale;
  return call;
}

// All tokens of the second sequence, one by one, beside some of the first.
at::Tensor one_by_one(const AttentionCase& x, const Variant& variant) {
  KeyValueMemory memory{at::zeros({sequences, key_heads, length, variant.dim}, x.key.options()),
                        at::zeros({sequences, key_heads, length, variant.dim}, x.key.options())};
  std::vector<at::Tensor> outputs;
  for (std::int64_t token = 0; token < length; ++token) {
    CachedTokens tokens;
    tokens.places = {{0, token}, {1, token}};
    const auto rows = [&](const at::Tensor& t) { return t.select(1, token); };
    outputs.push_back(cached_attention(rows(x.query), rows(x.key), rows(x.value), tokens, memory,
                                       {variant.method, variant.window, variant.scale, variant.sinks}));
  }
  return at::stack(outputs, 1);
}

}  // namespace

TEST_CASE("attention of separate rows has the bits of tokens that come one by one, in parts and in documents") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  for (const Variant& variant : variants()) {
    INFO(c10::toString(type) << ", a window of " << variant.window.value_or(0) << ", heads of " << variant.dim);
    const AttentionCase x = case_of(variant, type);
    const SeparateRows separate(true);
    const at::Tensor want = one_by_one(x, variant);
    AttentionCall call = call_of(variant);
    CHECK(attention_forward(x.query, x.key, x.value, call).out.equal(want));
    // Each sequence is a document; rows of the first are others'.
    const std::vector<PositionRun> documents{{0, length}, {length, length}};
    call.documents = {documents};
    const auto flat = [](const at::Tensor& t) { return t.reshape({1, 2 * length, t.size(2), t.size(3)}); };
    CHECK(attention_forward(flat(x.query), flat(x.key), flat(x.value), call).out.equal(flat(want)));
    call = call_of(variant);
    call.queries = {length, {{3, 10}, {50, 25}}};
    const auto part = [](const at::Tensor& t) { return at::cat({t.narrow(1, 3, 10), t.narrow(1, 50, 25)}, 1); };
    CHECK(attention_forward(part(x.query), x.key, x.value, call).out.equal(part(want)));
  }
}

TEST_CASE("what attention of separate rows keeps gives the gradients that it has else") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  for (const Variant& variant : variants()) {
    INFO(c10::toString(type) << ", a window of " << variant.window.value_or(0) << ", heads of " << variant.dim);
    const AttentionCase x = case_of(variant, type);
    const AttentionCall call = call_of(variant);
    const AttentionResult want = run(x, call);
    const SeparateRows separate(true);
    check(run(x, call), want, 2 * tolerance_of(type));
  }
}

}  // namespace llmtrain::kernels::rows_apart
