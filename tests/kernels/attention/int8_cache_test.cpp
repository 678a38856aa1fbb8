// SPDX-License-Identifier: Apache-2.0
// Keys and values that are kept in int8: what is stored of them, and attention to that in float64.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/attention/cached_attention.h"
#include "kernels/vector/products/attention.h"
#include "tests/kernels/tensor_error.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

constexpr std::int64_t int8_block = 16;
// In no order; the second sequence has three blocks.
const std::vector<std::vector<std::int64_t>> int8_tables{{7}, {3, 0, 5}, {2, 6}, {1}};
constexpr std::int64_t int8_blocks = 8;
const std::vector<std::int64_t> prompt_lengths{1, 41, 16, 15};

struct Int8Case {
  std::int64_t heads = 4, kv_heads = 2, dim = 64;
  at::ScalarType type = at::kFloat;
  CachedAttentionCall call{};
};

KeyValueMemory empty_memory(const Int8Case& of) {
  // Junk that no result may contain.
  const auto payload = [&] { return at::full({int8_blocks, of.kv_heads, int8_block, of.dim}, 99, at::kChar); };
  const auto scales = [&] {
    return at::full({int8_blocks, of.kv_heads, int8_block}, std::numeric_limits<float>::quiet_NaN(), at::kFloat);
  };
  return {payload(), payload(), scales(), scales()};
}

// Rows whose magnitudes differ by token and head, so that a scale of another one shows.
at::Tensor uneven_rows(std::int64_t tokens, std::int64_t heads, const Int8Case& of) {
  const at::Tensor magnitudes = at::exp(random_tensor({tokens, heads, 1}, at::kFloat) * 0.5);
  return (random_tensor({tokens, heads, of.dim}, at::kFloat) * magnitudes).to(of.type);
}

// A pass's tokens: of each sequence as many as said, from the positions said on.
struct Pass {
  CachedTokens tokens;
  at::Tensor query, key, value;

  Pass(const Int8Case& of, const std::vector<std::int64_t>& begins, const std::vector<std::int64_t>& counts) {
    for (std::size_t text = 0; text < counts.size(); ++text)
      for (std::int64_t i = 0; i < counts[text]; ++i)
        tokens.places.push_back({static_cast<std::int64_t>(text), begins[text] + i});
    tokens.blocks = int8_tables;
    const auto count = static_cast<std::int64_t>(tokens.places.size());
    query = random_tensor({count, of.heads, of.dim}, of.type);
    key = uneven_rows(count, of.kv_heads, of);
    value = uneven_rows(count, of.kv_heads, of);
  }

  at::Tensor attend(KeyValueMemory& memory, const CachedAttentionCall& call) {
    return cached_attention(query, key, value, tokens, memory, call);
  }

  // The row of a token alone.
  at::Tensor attend_alone(std::int64_t row, KeyValueMemory& memory, const CachedAttentionCall& call) const {
    CachedTokens one{{tokens.places[static_cast<std::size_t>(row)]}, {}, {}, {}, tokens.blocks};
    const auto own = [row](const at::Tensor& x) { return x.narrow(0, row, 1); };
    return cached_attention(own(query), own(key), own(value), one, memory, call);
  }
};

// What the memory or its scales have of a token, [kv_heads, D] or [kv_heads].
at::Tensor held_at(const at::Tensor& all, const CachePlace& place) {
  const auto& table = int8_tables[static_cast<std::size_t>(place.sequence)];
  return all.select(0, table[static_cast<std::size_t>(place.position / int8_block)])
      .select(1, place.position % int8_block);
}

at::Tensor dequantized_at(const at::Tensor& payload, const at::Tensor& scales, const CachePlace& place) {
  return held_at(payload, place).to(at::kDouble) * held_at(scales, place).to(at::kDouble).unsqueeze(1);
}

// A token's attention in float64 to what the memory holds.
at::Tensor expected_row(const at::Tensor& query, const CachePlace& place, const KeyValueMemory& memory,
                        const CachedAttentionCall& call) {
  std::vector<at::Tensor> keys, values;
  const std::int64_t end = place.position + 1, seen = std::min(end, call.window.value_or(end));
  for (std::int64_t position = end - seen; position < end; ++position) {
    keys.push_back(dequantized_at(memory.key, memory.key_scales, {place.sequence, position}));
    values.push_back(dequantized_at(memory.value, memory.value_scales, {place.sequence, position}));
  }
  const std::int64_t heads = query.size(0), group = heads / memory.key.size(1);
  const auto by_query_head = [&](const std::vector<at::Tensor>& rows) {
    return at::stack(rows, 1).repeat_interleave(group, 0);  // [heads, seen, D]
  };
  const double scale = call.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(1))));
  at::Tensor scores = at::matmul(by_query_head(keys), query.to(at::kDouble).unsqueeze(2)).squeeze(2) * scale;
  if (call.sinks.defined()) scores = at::cat({scores, call.sinks.to(at::kDouble).unsqueeze(1)}, 1);
  const at::Tensor weights = scores.softmax(1).narrow(1, 0, seen);
  return at::matmul(weights.unsqueeze(1), by_query_head(values)).squeeze(1);
}

double error_of(const at::Tensor& got, const Pass& pass, const KeyValueMemory& memory,
                const CachedAttentionCall& call) {
  double error = 0;
  for (std::size_t row = 0; row < pass.tokens.places.size(); ++row) {
    const auto index = static_cast<std::int64_t>(row);
    const at::Tensor want = expected_row(pass.query[index], pass.tokens.places[row], memory, call);
    error = std::max(error, largest_error(got[index], want));
  }
  return error;
}

void check_stored(const Pass& pass, const KeyValueMemory& memory) {
  for (std::size_t row = 0; row < pass.tokens.places.size(); ++row) {
    const CachePlace& place = pass.tokens.places[row];
    const auto check = [&](const at::Tensor& rows, const at::Tensor& payload, const at::Tensor& scales) {
      const at::Tensor exact = rows[static_cast<std::int64_t>(row)].to(at::kDouble), scale = held_at(scales, place);
      const at::Tensor largest = std::get<0>(exact.abs().max(1));
      CHECK((scale.to(at::kDouble) * 127 / largest - 1).abs().max().item<double>() < 2 * fp32_rounding);
      const at::Tensor error = (dequantized_at(payload, scales, place) - exact).abs();
      CHECK((error / scale.unsqueeze(1)).max().item<double>() <= 0.5 * (1 + 1e-5));
      CHECK(held_at(payload, place).abs().amax(1).eq(127).all().item<bool>());
    };
    check(pass.key, memory.key, memory.key_scales);
    check(pass.value, memory.value, memory.value_scales);
  }
}

std::vector<Int8Case> int8_cases() {
  std::vector<Int8Case> cases{{}, {.heads = 3, .kv_heads = 3, .dim = 8}, {.kv_heads = 1, .dim = 80}};
  cases.push_back({.dim = 128, .type = at::kBFloat16});
  cases.push_back({.dim = 32, .type = at::kHalf});
  Int8Case windowed{.dim = 40};
  windowed.call.window = 9;
  windowed.call.sinks = random_tensor({4}, at::kFloat);
  windowed.call.scale = 0.3;
  cases.push_back(windowed);
  return cases;
}

}  // namespace

TEST_CASE(
    "keys and values in int8 are off by half of their token's and head's scale at most, and attended to as stored") {
  for (const Int8Case& of : int8_cases()) {
    INFO(of.dim << " elements, " << of.kv_heads << " heads, " << c10::toString(of.type));
    // Sums in fp32, rounded once to the type; of prompts keys and values are rounded to it, too.
    const double rounding = of.type == at::kFloat ? 1e-5 : of.type == at::kHalf ? 4 * fp16_rounding : 4 * bf16_rounding;
    KeyValueMemory memory = empty_memory(of);
    Pass prompts(of, {0, 0, 0, 0}, prompt_lengths);
    CHECK(error_of(prompts.attend(memory, of.call), prompts, memory, of.call) < rounding);
    check_stored(prompts, memory);
    for (std::int64_t step = 0; step < 2; ++step) {
      std::vector<std::int64_t> begins;
      for (const std::int64_t length : prompt_lengths) begins.push_back(length + step);
      // The last sequence's block is full by then.
      Pass singles(of, begins, {1, 1, 1, step == 0 ? 1 : 0});
      CHECK(error_of(singles.attend(memory, of.call), singles, memory, of.call) < rounding);
      check_stored(singles, memory);
    }
    check_stored(prompts, memory);
  }
}

TEST_CASE("a token with keys and values in int8 has the bits that it has alone, and in blocks of another size") {
  for (const Int8Case& of : int8_cases()) {
    INFO(of.dim << " elements, " << c10::toString(of.type));
    KeyValueMemory together = empty_memory(of), alone = empty_memory(of), whole;
    Pass prompts(of, {0, 0, 0, 0}, prompt_lengths);
    prompts.attend(together, of.call);
    prompts.attend(alone, of.call);
    Pass singles(of, prompt_lengths, {1, 1, 1, 1});
    const at::Tensor out = singles.attend(together, of.call);
    for (std::int64_t row = 0; row < 4; ++row)
      CHECK(at::equal(singles.attend_alone(row, alone, of.call), out.narrow(0, row, 1)));
    CHECK(at::equal(together.key, alone.key));
    CHECK(at::equal(together.value, alone.value));
    // The second sequence's blocks one behind another, as one.
    const auto joined = [&](const at::Tensor& all) {
      std::vector<at::Tensor> blocks;
      for (const std::int64_t block : int8_tables[1]) blocks.push_back(all[block]);
      return at::cat(blocks, 1).unsqueeze(0).contiguous();
    };
    whole = {joined(together.key), joined(together.value), joined(together.key_scales), joined(together.value_scales)};
    CachedTokens one{{{0, prompt_lengths[1]}}, {}, {}, {}, {}};
    const auto own = [](const at::Tensor& x) { return x.narrow(0, 1, 1); };
    CHECK(at::equal(cached_attention(own(singles.query), own(singles.key), own(singles.value), one, whole, of.call),
                    out.narrow(0, 1, 1)));
  }
}

TEST_CASE("elements are rounded to the nearest multiple of the scale at every level, ties to even") {
  at_every_level([]<int level> {
    INFO("level " << level);
    const auto quantize = vector::attention_kernels_for<level>().fp32.quantize;
    float scale = -1;
    std::vector<std::int8_t> payload(8, 55);
    const std::vector<float> ties{127, 0.5F, 1.5F, 2.5F, -0.5F, -126.5F, 0.499F, -3};
    quantize(ties.data(), 8, payload.data(), scale);
    CHECK(scale == 1);
    CHECK(payload == std::vector<std::int8_t>{127, 0, 2, 2, 0, -126, 0, -3});
    // A product of two powers of two is exact.
    const std::vector<float> small{-127 * 0x1p-30F, 0x1p-30F, 0, 0, 0, 0, 0, -64 * 0x1p-30F};
    quantize(small.data(), 8, payload.data(), scale);
    CHECK(scale == 0x1p-30F);
    CHECK(payload == std::vector<std::int8_t>{-127, 1, 0, 0, 0, 0, 0, -64});
    for (const float least : {0.F, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min()}) {
      const std::vector<float> nothing(8, least);
      quantize(nothing.data(), 8, payload.data(), scale);
      CHECK(scale == 0);
      CHECK(payload == std::vector<std::int8_t>(8, 0));
    }
    for (const float number : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> broken(8, 1);
      broken[3] = number;
      quantize(broken.data(), 8, payload.data(), scale);
      CHECK_FALSE(std::isfinite(scale));
    }
  });
}

TEST_CASE("attention to int8 is the same at every level, of heads that no vector divides, too") {
  at_every_level([]<int level> {
    for (const std::int64_t dim : {5, 16, 40, 64, 72, 80, 131, 192}) {
      INFO("level " << level << ", " << dim);
      const std::int64_t count = 23;
      const auto loops = vector::attention_kernels_for<level>().fp32;
      const at::Tensor query = random_tensor({dim}, at::kFloat);
      const at::Tensor keys = at::randint(-127, 128, {count, dim}, test_generator(), at::kChar);
      const at::Tensor values = at::randint(-127, 128, {count, dim}, test_generator(), at::kChar);
      const at::Tensor scales = at::rand({2, count}, test_generator(), at::kFloat) / 127;
      const auto run = [&](std::int64_t begin, std::int64_t length) {
        return vector::KeyRun<std::int8_t>{
            keys.const_data_ptr<std::int8_t>() + begin * dim, values.const_data_ptr<std::int8_t>() + begin * dim,
            length, scales[0].const_data_ptr<float>() + begin, scales[1].const_data_ptr<float>() + begin};
      };
      const std::vector<vector::KeyRun<std::int8_t>> runs{run(0, 12), run(12, 11)};
      std::vector<float> scratch(static_cast<std::size_t>(count + 2 * dim));
      const at::Tensor out = at::empty({dim}, at::kFloat);
      loops.attend_int8({.query = query.const_data_ptr<float>(),
                         .runs = runs.data(),
                         .run_count = 2,
                         .count = count,
                         .dim = dim,
                         .scale = 0.5F,
                         .scratch = scratch.data(),
                         .out = out.mutable_data_ptr<float>()});
      const auto widened = [&](const at::Tensor& payload, std::int64_t which) {
        return payload.to(at::kDouble) * scales[which].to(at::kDouble).unsqueeze(1);
      };
      const at::Tensor weights = (at::matmul(widened(keys, 0), query.to(at::kDouble)) * 0.5).softmax(0);
      CHECK(largest_error(out, at::matmul(weights, widened(values, 1))) < 1e-5);
    }
  });
}

}  // namespace llmtrain::kernels
