// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/finite_weights.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/error.h"

namespace llmtrain {
namespace {

// In IEEE 754 formats an exponent of ones alone marks infinities and NaN. Without an early end, so that the loop is
// compiled to vector instructions.
template <class Word>
bool has_exponent_of_ones(const void* data, std::size_t bytes, Word exponent) {
  const auto* next = static_cast<const std::byte*>(data);
  bool found = false;
  for (std::size_t i = 0; i < bytes / sizeof(Word); ++i) {
    Word word = 0;
    std::memcpy(&word, next + i * sizeof(Word), sizeof(Word));
    found |= static_cast<Word>(word & exponent) == exponent;
  }
  return found;
}

// Optimizer states are left out: they do not make a model useless.
bool is_weight(const TensorSlice& slice) { return !slice.name.ends_with(".m") && !slice.name.ends_with(".v"); }

bool is_finite(const TensorSlice& slice) {
  const auto bytes = static_cast<std::size_t>(bytes_of(slice));
  if (slice.dtype == "F32") return !has_exponent_of_ones<std::uint32_t>(slice.data, bytes, 0x7f800000U);
  if (slice.dtype == "BF16") return !has_exponent_of_ones<std::uint16_t>(slice.data, bytes, 0x7f80U);
  if (slice.dtype == "F16") return !has_exponent_of_ones<std::uint16_t>(slice.data, bytes, 0x7c00U);
  return true;  // scaled formats are made from one of these
}

}  // namespace

void require_finite_weights(std::span<const TensorSlice> slices) {
  for (const TensorSlice& slice : slices) {
    if (!is_weight(slice) || is_finite(slice)) continue;
    throw Error(ExitCode::bad_data,
                slice.name +
                    ": has weights that are not finite, so the run has diverged: no checkpoint of them is written, and "
                    "earlier ones stay; lower training.learning_rate.peak or lengthen its warm-up, and run again");
  }
}

}  // namespace llmtrain
