// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/finite_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "core/base/small_float.h"

namespace llmtrain {
namespace {

// The largest bits without the sign, which order magnitudes, infinities and NaN above all numbers. Without branches, so
// that the loop is compiled to vector instructions.
template <std::signed_integral Word>
Word largest_bits(std::span<const std::byte> values) {
  Word most = 0;
  for (std::size_t i = 0; i < values.size() / sizeof(Word); ++i) {
    Word word = 0;
    std::memcpy(&word, values.data() + i * sizeof(Word), sizeof(Word));
    most = std::max(most, static_cast<Word>(word & std::numeric_limits<Word>::max()));
  }
  return most;
}

// Optimizer states are left out: they do not make a model useless.
bool is_weight(const TensorSlice& slice) { return !slice.name.ends_with(".m") && !slice.name.ends_with(".v"); }

bool is_finite(const TensorSlice& slice) {
  bool all = true;
  const auto look = [&](const void* bytes, std::size_t count) {
    // Scaled formats are made from one of the others.
    const std::span values(static_cast<const std::byte*>(bytes), count);
    all = all && std::isfinite(largest_magnitude(slice.dtype, values).value_or(0));
  };
  if (slice.content) {
    slice.content(look);
  } else {
    look(slice.data, static_cast<std::size_t>(bytes_of(slice)));
  }
  return all;
}

}  // namespace

std::optional<float> largest_magnitude(std::string_view dtype, std::span<const std::byte> values) {
  using Half = SmallFloat<std::uint16_t, 5, 10, true>;
  if (dtype == "F32") return std::bit_cast<float>(largest_bits<std::int32_t>(values));
  if (dtype == "BF16") return std::bit_cast<float>(std::int32_t{largest_bits<std::int16_t>(values)} << 16);
  if (dtype == "F16") return Half::widen(static_cast<std::uint16_t>(largest_bits<std::int16_t>(values)));
  return std::nullopt;
}

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
