// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/beam_hypotheses.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace llmtrain {

std::int64_t candidates_of_step(const BeamSearch& search) {
  return std::max<std::int64_t>(2, 1 + std::ssize(search.ends)) * search.beams;
}

std::vector<BeamCandidate> best_candidates(std::span<const std::vector<float>> scores, std::int64_t count) {
  const auto before = [](const BeamCandidate& a, const BeamCandidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
  };
  std::vector<BeamCandidate> best;
  for (std::size_t beam = 0; beam < scores.size(); ++beam)
    for (std::size_t token = 0; token < scores[beam].size(); ++token) {
      const BeamCandidate candidate{scores[beam][token], static_cast<std::int64_t>(beam),
                                    static_cast<std::int64_t>(token)};
      if (candidate.score == -std::numeric_limits<double>::infinity()) continue;
      if (std::ssize(best) == count && !before(candidate, best.back())) continue;
      best.insert(std::ranges::upper_bound(best, candidate, before), candidate);
      if (std::ssize(best) > count) best.pop_back();
    }
  return best;
}

BeamHypotheses::BeamHypotheses(BeamSearch search, std::int64_t most_tokens)
    : search_(std::move(search)), most_tokens_(most_tokens) {}

double BeamHypotheses::penalized(double score, std::int64_t tokens) const {
  return score / std::pow(static_cast<double>(tokens), search_.length_penalty);
}

void BeamHypotheses::add_finished(Text text) {
  const auto place = std::ranges::upper_bound(finished_, text.score, std::greater<>(), &Text::score);
  finished_.insert(place, std::move(text));
  if (std::ssize(finished_) > search_.beams) finished_.pop_back();
}

std::vector<std::int64_t> BeamHypotheses::advance(std::span<const BeamCandidate> candidates) {
  const std::int64_t tokens = std::ssize(beams_.front().tokens) + 1;
  const bool is_closed = search_.early_stopping == EarlyStopping::yes && is_full();
  std::vector<Text> next;
  std::vector<std::int64_t> before;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const BeamCandidate& candidate = candidates[i];
    const bool ends = tokens == most_tokens_ || std::ranges::count(search_.ends, candidate.token) > 0;
    // Those behind the best stand only in for beams that are finished.
    if (ends && (is_closed || static_cast<std::int64_t>(i) >= search_.beams)) continue;
    if (!ends && std::ssize(next) == search_.beams) continue;
    Text text = beams_[static_cast<std::size_t>(candidate.beam)];
    text.tokens.push_back(candidate.token);
    text.score = ends ? penalized(candidate.score, tokens) : candidate.score;
    if (ends) {
      add_finished(std::move(text));
      continue;
    }
    next.push_back(std::move(text));
    before.push_back(candidate.beam);
  }
  is_done_ = next.empty() || (search_.early_stopping == EarlyStopping::yes && is_full());
  if (!is_done_ && is_full()) {
    const bool grows_better = search_.early_stopping == EarlyStopping::never && search_.length_penalty > 0;
    is_done_ = penalized(next.front().score, grows_better ? most_tokens_ : tokens) <= finished_.back().score;
  }
  beams_ = std::move(next);
  return before;
}

}  // namespace llmtrain
