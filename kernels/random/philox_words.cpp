// SPDX-License-Identifier: Apache-2.0
#include "kernels/random/philox_words.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>

#include <array>

// As int64, since LibTorch lacks arithmetic on unsigned 32-bit words.
namespace llmtrain::kernels {
namespace {

constexpr std::int64_t low_word = 0xFFFFFFFF;

struct WidePair {
  at::Tensor high, low;
};

WidePair multiply_words(const at::Tensor& word, std::int64_t factor) {
  const at::Tensor product = word.mul(factor);  // wraps modulo 2⁶⁴, as an unsigned product would
  // The shift copies the sign bit; the mask removes the copies.
  return {(product.bitwise_right_shift(32)).bitwise_and(low_word), product.bitwise_and(low_word)};
}

}  // namespace

at::Tensor philox_words(std::uint64_t key, std::int64_t first, std::int64_t count, const at::Device& device) {
  const at::Tensor counter = at::arange(first, first + count, at::TensorOptions(at::kLong).device(device));
  const at::Tensor zero = at::full_like(counter, 0);
  std::array<at::Tensor, 4> c{counter.bitwise_and(low_word), counter.bitwise_right_shift(32), zero, zero};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const WidePair p0 = multiply_words(c[0], 0xD2511F53);
    const WidePair p1 = multiply_words(c[2], 0xCD9E8D57);
    c = {p1.high.bitwise_xor(c[1]).bitwise_xor(static_cast<std::int64_t>(k0)), p1.low,
         p0.high.bitwise_xor(c[3]).bitwise_xor(static_cast<std::int64_t>(k1)), p0.low};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return at::stack(c, 1).reshape(-1);
}

}  // namespace llmtrain::kernels
