// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/data/mix_bits.h"

namespace llmtrain {

// Random numbers that are a function of a key and of how many were drawn before. Resumed runs rely on their values, so
// they must never change. Not for secrecy.
class Draws {
 public:
  explicit Draws(std::uint64_t key) : key_(mix_bits(key)) {}

  std::uint64_t next() { return mix_bits(key_ + count_++); }
  // From 0 to `end` − 1; `end` is at least 1. Its bias is below end / 2^64 (Lemire, arXiv 1805.10941, section 4,
  // without its rejection).
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>((static_cast<Wide>(next()) * static_cast<Wide>(end)) >> 64U);
  }
  // From 0 to below 1, in steps of 2^−53.
  double share() { return std::ldexp(static_cast<double>(next() >> 11U), -53); }

 private:
  __extension__ using Wide = unsigned __int128;

  std::uint64_t key_, count_ = 0;
};

}  // namespace llmtrain
