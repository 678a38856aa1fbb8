// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/token_choice.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "kernels/random/philox.h"

namespace llmtrain {
namespace {

double uniform(std::int64_t seed, const TextNumber& text, std::int64_t index) {
  // Counter-based: a text's number is one half of the counter and the token's the other. 53 random bits fill a double
  // in [0, 1).
  const std::uint64_t number =
      (static_cast<std::uint64_t>(text.prompt) << 32) | (static_cast<std::uint64_t>(text.sample) & 0xFFFFFFFFU);
  const auto bits = kernels::philox(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(index), number);
  return static_cast<double>((std::uint64_t{bits[0]} << 21) ^ (bits[1] >> 11)) / static_cast<double>(1ULL << 53);
}

// The ids of the candidates, from the most to the least likely where their number is limited.
std::vector<std::size_t> candidates_of(std::span<const float> logits, const TokenChoice& choice) {
  std::vector<std::size_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), std::size_t{0});
  const auto k = static_cast<std::size_t>(choice.top_k);
  const bool is_limited = choice.top_k > 0 && k < ids.size();
  // Without a limit the order does not matter, and sorting a whole vocabulary takes longer than a small model.
  if (!is_limited && choice.top_p >= 1) return ids;
  const auto end = is_limited ? ids.begin() + static_cast<std::ptrdiff_t>(k) : ids.end();
  // It leaves the order of equal elements open: their ids decide, so that every library chooses alike.
  std::partial_sort(ids.begin(), end, ids.end(), [&](std::size_t a, std::size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  ids.erase(end, ids.end());
  return ids;
}

}  // namespace

std::int64_t choose_token(std::span<const float> logits, const TokenChoice& choice, const TextNumber& text,
                          std::int64_t index) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (choice.temperature == 0) return largest - logits.begin();
  std::vector<std::size_t> ids = candidates_of(logits, choice);
  std::vector<double> weights;
  weights.reserve(ids.size());
  // Relative to the largest logit, so that nothing overflows.
  for (const std::size_t id : ids)
    weights.push_back(std::exp((double{logits[id]} - double{*largest}) / choice.temperature));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (choice.top_p < 1) {
    std::size_t kept = 0;
    double sum = 0;
    // At least one, also where p is 0.
    while (kept == 0 || (kept < weights.size() && sum < choice.top_p * total)) sum += weights[kept++];
    weights.resize(kept);
    total = sum;
  }
  double rest = uniform(choice.seed, text, index) * total;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    rest -= weights[i];
    if (rest < 0) return static_cast<std::int64_t>(ids[i]);
  }
  // Rounding may leave a rest after the last candidate.
  return static_cast<std::int64_t>(ids[weights.size() - 1]);
}

std::int64_t choose_token(std::span<const float> logits, const LogitRules& rules, const TokenChoice& choice,
                          const TextNumber& text, const TokenPlace& place) {
  if (!rules.are_any()) return choose_token(logits, choice, text, place.index);
  std::vector<float> changed(logits.begin(), logits.end());
  apply(rules, place, changed);
  return choose_token(changed, choice, text, place.index);
}

}  // namespace llmtrain
