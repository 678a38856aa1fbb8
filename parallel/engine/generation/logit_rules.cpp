// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/logit_rules.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace llmtrain {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();

// Each token once, however often it is there.
void penalize(double penalty, std::span<const std::int64_t> tokens, std::span<float> scores) {
  std::vector<std::int64_t> each(tokens.begin(), tokens.end());
  std::ranges::sort(each);
  each.erase(std::unique(each.begin(), each.end()), each.end());
  const auto factor = static_cast<float>(penalty);
  for (const std::int64_t token : each) {
    const auto id = static_cast<std::size_t>(token);
    if (id < scores.size()) scores[id] = scores[id] < 0 ? scores[id] * factor : scores[id] / factor;
  }
}

// Tokens that have followed the last size − 1 before.
void forbid_repeats(std::size_t size, std::span<const std::int64_t> tokens, std::span<float> scores) {
  if (tokens.size() + 1 < size) return;
  const std::span<const std::int64_t> last = tokens.last(size - 1);
  for (std::size_t begin = 0; begin + size <= tokens.size(); ++begin) {
    if (!std::ranges::equal(tokens.subspan(begin, size - 1), last)) continue;
    const auto id = static_cast<std::size_t>(tokens[begin + size - 1]);
    if (id < scores.size()) scores[id] = never;
  }
}

void force(std::int64_t token, std::span<float> scores) {
  std::ranges::fill(scores, never);
  if (static_cast<std::size_t>(token) < scores.size()) scores[static_cast<std::size_t>(token)] = 0;
}

}  // namespace

void apply(const LogitRules& rules, const TokenPlace& place, std::span<float> scores) {
  if (rules.repetition_penalty != 1) penalize(rules.repetition_penalty, place.before, scores);
  if (rules.no_repeat_ngram_size > 0)
    forbid_repeats(static_cast<std::size_t>(rules.no_repeat_ngram_size), place.before, scores);
  if (rules.forced_first && place.index == 0) force(*rules.forced_first, scores);
  if (rules.forced_last && place.index + 1 == place.most) force(*rules.forced_last, scores);
}

}  // namespace llmtrain
