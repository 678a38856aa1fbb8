// SPDX-License-Identifier: Apache-2.0
// One token of each of many sequences on a GPU, emulated here with the project's kernels, against the processor.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "kernels/attention/cached_attention.h"
#include "tests/emulator/torch/backend.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

const at::Device gpu{at::kCUDA, 0};
constexpr std::int64_t decode_heads = 6, decode_kv_heads = 2, decode_capacity = 300;

CachedTokens tokens_at(const std::vector<CachePlace>& places, const at::Device& device) {
  std::vector<std::int64_t> sequences, positions;
  for (const CachePlace& place : places) {
    sequences.push_back(place.sequence < 0 ? 0 : place.sequence);
    positions.push_back(place.position);
  }
  return {places, at::tensor(sequences).to(device), at::tensor(positions).to(device), {}};
}

}  // namespace

TEST_CASE("a token of each of many sequences attends on a GPU with two launches and no wait, as on a processor") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const std::int64_t dim = GENERATE(16, 40, 256);
  INFO(c10::toString(type) << ", heads of " << dim);
  // In any order, and a row that only pads.
  const std::vector<CachePlace> places{{3, 5}, {0, 127}, {1, 128}, {4, 299}, {-1, 0}};
  const auto count = static_cast<std::int64_t>(places.size());
  const auto rows = [&](std::int64_t heads) { return random_tensor({count, heads, dim}, type); };
  // Heads of keys and values lie side by side in one product's result.
  const at::Tensor query = rows(decode_heads), both = rows(2 * decode_kv_heads);
  const auto held = [&] { return random_tensor({5, decode_kv_heads, decode_capacity, dim}, type); };
  KeyValueMemory here{held(), held()}, there{here.key.to(gpu), here.value.to(gpu)};
  const auto attend = [&](const at::Device& device, KeyValueMemory& memory) {
    const at::Tensor joined = both.to(device), asked = query.to(device);
    CachedTokens tokens = tokens_at(places, device);
    const auto part = [&](std::int64_t first) { return joined.narrow(1, first, decode_kv_heads); };
    const emulated::NoSynchronisation no_wait;
    const std::int64_t before = emulated::counters(0).launches;
    const at::Tensor out = cached_attention(asked, part(0), part(decode_kv_heads), tokens, memory, {});
    // And one that clears the row of no sequence.
    if (device.is_cuda()) CHECK(emulated::counters(0).launches - before == 3);
    return out;
  };
  const at::Tensor got = attend(gpu, there).cpu(), want = attend(at::kCPU, here);
  CHECK(at::equal(there.key.cpu(), here.key));
  CHECK(at::equal(there.value.cpu(), here.value));
  CHECK(got.select(0, count - 1).eq(0).all().item<bool>());
  // Scores and sums in fp32, rounded once on both; on a processor those of fp16 are rounded before they are weights.
  const double rounding = type == at::kFloat  ? 16 * fp32_rounding
                          : type == at::kHalf ? 4 * fp16_rounding
                                              : 4 * bf16_rounding;
  CHECK(largest_error(got, want) < rounding);
}

}  // namespace llmtrain::kernels
