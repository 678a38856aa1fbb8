// SPDX-License-Identifier: Apache-2.0
// Keys and values that are kept in int8 and FP8: what is stored of them, and attention to that in float64.
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

constexpr std::int64_t byte_block = 16;
// In no order; the second sequence has three blocks.
const std::vector<std::vector<std::int64_t>> byte_tables{{7}, {3, 0, 5}, {2, 6}, {1}};
constexpr std::int64_t byte_blocks = 8;
const std::vector<std::int64_t> prompt_lengths{1, 41, 16, 15};

struct ByteCase {
  std::int64_t heads = 4, kv_heads = 2, dim = 64;
  at::ScalarType type = at::kFloat, stored = at::kChar;
  CachedAttentionCall call{};
};

KeyValueMemory empty_memory(const ByteCase& of) {
  // Junk that no result may contain.
  const auto payload = [&] {
    return at::full({byte_blocks, of.kv_heads, byte_block, of.dim}, 0x7F, at::kByte).view(of.stored);  // of FP8 NaN
  };
  const auto scales = [&] {
    return at::full({byte_blocks, of.kv_heads, byte_block}, std::numeric_limits<float>::quiet_NaN(), at::kFloat);
  };
  return {payload(), payload(), scales(), scales()};
}

// Rows whose magnitudes differ by token and head, so that a scale of another one shows.
at::Tensor uneven_rows(std::int64_t tokens, std::int64_t heads, const ByteCase& of) {
  const at::Tensor magnitudes = at::exp(random_tensor({tokens, heads, 1}, at::kFloat) * 0.5);
  return (random_tensor({tokens, heads, of.dim}, at::kFloat) * magnitudes).to(of.type);
}

// A pass's tokens: of each sequence as many as said, from the positions said on.
struct Pass {
  CachedTokens tokens;
  at::Tensor query, key, value;

  Pass(const ByteCase& of, const std::vector<std::int64_t>& begins, const std::vector<std::int64_t>& counts) {
    for (std::size_t text = 0; text < counts.size(); ++text)
      for (std::int64_t i = 0; i < counts[text]; ++i)
        tokens.places.push_back({static_cast<std::int64_t>(text), begins[text] + i});
    tokens.blocks = byte_tables;
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
  const auto& table = byte_tables[static_cast<std::size_t>(place.sequence)];
  return all.select(0, table[static_cast<std::size_t>(place.position / byte_block)])
      .select(1, place.position % byte_block);
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

// The largest number of a byte.
double largest_of(at::ScalarType stored) { return stored == at::kChar ? 127 : 448; }

// How far elements of these magnitudes may be from what is stored of them, in units of the scale: half of the distance
// to the next number, which of FP8 is an eighth of the power of two below, and 2⁻⁹ at least.
at::Tensor rounding_of(const at::Tensor& magnitudes, at::ScalarType stored) {
  if (stored == at::kChar) return at::full_like(magnitudes, 0.5);
  return at::exp2(at::floor(at::log2(magnitudes)) - 4).clamp_min(0x1p-10);
}

void check_stored(const Pass& pass, const KeyValueMemory& memory) {
  const at::ScalarType stored = memory.key.scalar_type();
  for (std::size_t row = 0; row < pass.tokens.places.size(); ++row) {
    const CachePlace& place = pass.tokens.places[row];
    const auto check = [&](const at::Tensor& rows, const at::Tensor& payload, const at::Tensor& scales) {
      const at::Tensor exact = rows[static_cast<std::int64_t>(row)].to(at::kDouble), scale = held_at(scales, place);
      const at::Tensor largest = std::get<0>(exact.abs().max(1));
      CHECK((scale.to(at::kDouble) * largest_of(stored) / largest - 1).abs().max().item<double>() < 2 * fp32_rounding);
      const at::Tensor in_scales = exact / scale.to(at::kDouble).unsqueeze(1);
      const at::Tensor of_row = held_at(payload, place).to(at::kDouble), error = (of_row - in_scales).abs();
      // The element is divided in fp32.
      CHECK((error - 1e-5 * in_scales.abs() - rounding_of(in_scales.abs(), stored)).max().item<double>() <= 0);
      CHECK(of_row.abs().amax(1).eq(largest_of(stored)).all().item<bool>());
    };
    check(pass.key, memory.key, memory.key_scales);
    check(pass.value, memory.value, memory.value_scales);
  }
}

std::vector<ByteCase> byte_cases() {
  std::vector<ByteCase> cases{{}, {.heads = 3, .kv_heads = 3, .dim = 8}, {.kv_heads = 1, .dim = 80}};
  cases.push_back({.dim = 128, .type = at::kBFloat16});
  cases.push_back({.dim = 32, .type = at::kHalf});
  ByteCase windowed{.dim = 40};
  windowed.call.window = 9;
  windowed.call.sinks = random_tensor({4}, at::kFloat);
  windowed.call.scale = 0.3;
  cases.push_back(windowed);
  const std::vector<ByteCase> of_int8 = cases;
  for (ByteCase of : of_int8) {
    of.stored = at::kFloat8_e4m3fn;
    cases.push_back(of);
  }
  return cases;
}

}  // namespace

TEST_CASE("keys and values in bytes are rounded by their token's and head's scale, and attended to as stored") {
  for (const ByteCase& of : byte_cases()) {
    INFO(of.dim << " elements, " << of.kv_heads << " heads, " << c10::toString(of.type) << " in "
                << c10::toString(of.stored));
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

TEST_CASE("a token with keys and values in bytes has the bits that it has alone, and in blocks of another size") {
  for (const ByteCase& of : byte_cases()) {
    INFO(of.dim << " elements, " << c10::toString(of.type) << " in " << c10::toString(of.stored));
    KeyValueMemory together = empty_memory(of), alone = empty_memory(of), whole;
    Pass prompts(of, {0, 0, 0, 0}, prompt_lengths);
    prompts.attend(together, of.call);
    prompts.attend(alone, of.call);
    Pass singles(of, prompt_lengths, {1, 1, 1, 1});
    const at::Tensor out = singles.attend(together, of.call);
    for (std::int64_t row = 0; row < 4; ++row)
      CHECK(at::equal(singles.attend_alone(row, alone, of.call), out.narrow(0, row, 1)));
    CHECK(at::equal(together.key.view(at::kChar), alone.key.view(at::kChar)));
    CHECK(at::equal(together.value.view(at::kChar), alone.value.view(at::kChar)));
    // The second sequence's blocks one behind another, as one.
    const auto joined = [&](const at::Tensor& all) {
      std::vector<at::Tensor> blocks;
      for (const std::int64_t block : byte_tables[1]) blocks.push_back(all[block]);
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
    const auto quantize = vector::attention_kernels_for<level>().fp32.int8.quantize;
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

TEST_CASE("elements are rounded to E4M3 as PyTorch does at every level") {
  // The numbers of the format, the midpoints between neighbours, and fp32's neighbours of these. With 448 among them
  // the scale is 1.
  const at::Tensor codes = at::arange(127, at::kByte).view(at::kFloat8_e4m3fn).to(at::kFloat);
  const at::Tensor points = at::cat({codes, (codes.slice(0, 0, 126) + codes.slice(0, 1)) / 2});
  const at::Tensor near = at::cat({points, at::nextafter(points, at::zeros({1})),
                                   at::nextafter(points, at::full({1}, 448.F)), at::full({1}, 1e-45F)});
  const at::Tensor all = at::cat({near, -near});
  at_every_level([&]<int level> {
    INFO("level " << level);
    const auto quantize = vector::attention_kernels_for<level>().fp32.fp8.quantize;
    const at::Tensor payload = at::empty(all.sizes(), at::kByte);
    const auto run = [&](const at::Tensor& x) {
      float scale = -1;
      quantize(x.const_data_ptr<float>(), x.numel(), static_cast<vector::Fp8Element*>(payload.data_ptr()), scale);
      return scale;
    };
    CHECK(run(all) == 1);
    CHECK(at::equal(payload, all.to(at::kFloat8_e4m3fn).view(at::kByte)));
    CHECK(run(all * 0x1p-40F) == 0x1p-40F);
    CHECK(run(at::full({8}, std::numeric_limits<float>::min())) == 0);
    CHECK(payload.narrow(0, 0, 8).eq(0).all().item<bool>());
    CHECK_FALSE(std::isfinite(run(at::tensor({1.F, std::numeric_limits<float>::quiet_NaN()}))));
    CHECK_FALSE(std::isfinite(run(at::tensor({1.F, std::numeric_limits<float>::infinity()}))));
  });
}

TEST_CASE("attention to one value is the value, of all numbers of E4M3 and at every level") {
  const at::Tensor codes = at::arange(256, at::kInt).to(at::kByte);
  const at::Tensor finite = codes.masked_select(codes.bitwise_and(127).ne(127));  // 254: all paths of the loops
  at_every_level([&]<int level> {
    for (const std::int64_t shift : {0, 64, 128, 192}) {
      const at::Tensor values = finite.roll(shift);
      const float scale = 0.75F;
      const auto* const row = static_cast<const vector::Fp8Element*>(values.const_data_ptr());
      const vector::KeyRun<vector::Fp8Element> run{row, row, 1, &scale, &scale};
      const at::Tensor query = at::zeros({254}), out = at::empty({254});
      std::vector<float> scratch(1 + 2 * 254);
      vector::attention_kernels_for<level>().fp32.fp8.attend({.query = query.const_data_ptr<float>(),
                                                              .runs = &run,
                                                              .run_count = 1,
                                                              .count = 1,
                                                              .dim = 254,
                                                              .scratch = scratch.data(),
                                                              .out = out.mutable_data_ptr<float>()});
      CHECK(at::equal(out, values.view(at::kFloat8_e4m3fn).to(at::kFloat) * scale));
    }
  });
}

template <int level, class Byte>
void check_level(at::ScalarType stored) {
  for (const std::int64_t dim : {5, 16, 40, 64, 72, 80, 131, 192}) {
    INFO("level " << level << ", " << dim << ", " << c10::toString(stored));
    const std::int64_t count = 23;
    const auto loops = vector::attention_kernels_for<level>().fp32;
    const at::Tensor query = random_tensor({dim}, at::kFloat);
    const auto random_bytes = [&] {
      return (at::rand({count, dim}, test_generator(), at::kFloat) * 2 - 1).mul_(largest_of(stored)).to(stored);
    };
    const at::Tensor keys = random_bytes(), values = random_bytes();
    const at::Tensor scales = at::rand({2, count}, test_generator(), at::kFloat) / largest_of(stored);
    const auto run = [&](std::int64_t begin, std::int64_t length) {
      const auto rows = [&](const at::Tensor& all) {
        return static_cast<const Byte*>(all.const_data_ptr()) + begin * dim;
      };
      return vector::KeyRun<Byte>{rows(keys), rows(values), length, scales[0].const_data_ptr<float>() + begin,
                                  scales[1].const_data_ptr<float>() + begin};
    };
    const std::vector<vector::KeyRun<Byte>> runs{run(0, 12), run(12, 11)};
    std::vector<float> scratch(static_cast<std::size_t>(count + 2 * dim));
    const at::Tensor out = at::empty({dim}, at::kFloat);
    loops.template of_rows<Byte>().attend({.query = query.const_data_ptr<float>(),
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
}

TEST_CASE("attention to bytes is the same at every level, of heads that no vector divides, too") {
  at_every_level([]<int level> {
    check_level<level, std::int8_t>(at::kChar);
    check_level<level, vector::Fp8Element>(at::kFloat8_e4m3fn);
  });
}

}  // namespace llmtrain::kernels
