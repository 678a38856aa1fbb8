// SPDX-License-Identifier: Apache-2.0
#include "kernels/random/philox_words.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

namespace llmtrain::kernels {
namespace {

constexpr std::int64_t low_word = 0xFFFFFFFF;

// out = the high word of a product that wrapped modulo 2⁶⁴, as an unsigned one would, mixed with a word and a key. The
// shift copies the sign bit; the mask removes the copies.
void mix_high_word(at::Tensor& out, const at::Tensor& product, const at::Tensor& word, std::uint32_t key) {
  at::bitwise_right_shift_out(out, product, 32);
  out.bitwise_and_(low_word).bitwise_xor_(word).bitwise_xor_(static_cast<std::int64_t>(key));
}

}  // namespace

// In place: what it takes is several times as large as what the words are for.
std::array<at::Tensor, 4> philox_words(std::uint64_t key, std::int64_t first, std::int64_t count,
                                       const at::Device& device) {
  at::Tensor scratch = at::arange(first, first + count, at::TensorOptions(at::kLong).device(device));
  std::array<at::Tensor, 4> words{scratch.bitwise_and(low_word), scratch.bitwise_right_shift(32),
                                  at::zeros_like(scratch), at::zeros_like(scratch)};
  auto& [c0, c1, c2, c3] = words;
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    c0.mul_(0xD2511F53);
    c2.mul_(0xCD9E8D57);
    mix_high_word(scratch, c2, c1, k0);
    at::bitwise_and_out(c1, c2, low_word);
    mix_high_word(c2, c0, c3, k1);
    at::bitwise_and_out(c3, c0, low_word);
    std::swap(c0, scratch);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return words;
}

}  // namespace llmtrain::kernels
