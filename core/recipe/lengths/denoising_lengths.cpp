// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/lengths/denoising_lengths.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace llmtrain {
namespace {

std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

}  // namespace

SpanCounts span_counts(const DenoisingRecipe& denoising, std::int64_t tokens) {
  SpanCounts counts;
  const std::int64_t most = std::max<std::int64_t>(1, tokens - 1);
  counts.noise = std::clamp<std::int64_t>(rounded(static_cast<double>(tokens) * noise_share(denoising)), 1, most);
  // Each part stands behind a token that stays.
  const std::int64_t parts = rounded(static_cast<double>(counts.noise) / denoising.mean_span);
  counts.spans = std::clamp<std::int64_t>(parts, 1, std::max<std::int64_t>(1, tokens - counts.noise));
  counts.source = tokens - counts.noise + counts.spans;
  counts.target = counts.noise + counts.spans;
  return counts;
}

std::int64_t longest_text(const DenoisingRecipe& denoising, std::int64_t source_length, std::int64_t target_length,
                          std::int64_t marks) {
  const std::int64_t source_room = source_length - 1 - marks, target_room = target_length - 1 - marks;
  if (denoising.noise == Noise::infilling) return std::min(source_room, target_room);
  // Neither grows by more than a token with each of the text's.
  std::int64_t tokens = 1;
  while (true) {
    const SpanCounts next = span_counts(denoising, tokens + 1);
    if (next.source > source_room || next.target > target_room) return tokens;
    ++tokens;
  }
}

std::int64_t denoising_target_length(const DenoisingRecipe& denoising, std::int64_t source_length) {
  if (denoising.noise == Noise::infilling) return source_length;
  constexpr std::int64_t mark = 1;
  const std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
  const std::int64_t tokens = std::max<std::int64_t>(2, longest_text(denoising, source_length, unlimited, mark));
  return std::min(source_length, span_counts(denoising, tokens).target + mark + 1);
}

}  // namespace llmtrain
