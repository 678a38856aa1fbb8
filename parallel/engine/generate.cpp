// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generate.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/philox.h"
#include "parallel/engine/evaluation.h"

namespace llmtrain {
namespace {

// Candidates from the most to the least likely; ties keep the order of their ids, so that results are reproducible.
std::vector<std::int64_t> ranked_candidates(const float* logits, std::int64_t vocabulary, std::int64_t top_k) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(vocabulary));
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int64_t a, std::int64_t b) { return logits[a] > logits[b]; });
  if (top_k > 0 && top_k < vocabulary) ids.resize(static_cast<std::size_t>(top_k));
  return ids;
}

double uniform(std::int64_t seed, std::int64_t position) {
  // Counter-based, so that a token's draw depends only on seed and position. 53 random bits fill a double in [0, 1).
  const auto bits = kernels::philox(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(position), 0);
  return static_cast<double>((std::uint64_t{bits[0]} << 21) ^ (bits[1] >> 11)) / static_cast<double>(1ULL << 53);
}

std::int64_t choose(const float* logits, std::int64_t vocabulary, const GenerateOptions& options,
                    std::int64_t position) {
  const auto candidates = ranked_candidates(logits, vocabulary, options.top_k);
  if (options.temperature == 0) return candidates.front();
  std::vector<double> weights;
  for (const std::int64_t id : candidates)
    // Relative to the largest logit, so that nothing overflows.
    weights.push_back(std::exp((logits[id] - logits[candidates.front()]) / options.temperature));
  double rest = uniform(options.seed, position) * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    rest -= weights[i];
    if (rest < 0) return candidates[i];
  }
  // Rounding may leave a rest after the last candidate.
  return candidates.back();
}

}  // namespace

std::vector<std::int64_t> generate(LocalModel& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::int64_t> tokens = std::move(prompt);
  const std::int64_t window = model.graph().model.max_sequence_length;
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    if (options.time_limit && std::chrono::steady_clock::now() - start > *options.time_limit) break;
    const auto length = std::min(window, static_cast<std::int64_t>(tokens.size()));
    const at::Tensor context = at::from_blob(tokens.data() + tokens.size() - length, {length}, at::kLong);
    const at::Tensor logits = logits_of(model, context);
    const float* last = logits.data_ptr<float>() + (length - 1) * logits.size(1);
    tokens.push_back(choose(last, logits.size(1), options, i));
  }
  return tokens;
}

}  // namespace llmtrain
