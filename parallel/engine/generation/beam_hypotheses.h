// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace llmtrain {

// When a search by beams ends that has as many finished texts as beams, as transformers' early_stopping.
enum class EarlyStopping {
  no,     // when a text of the length so far could be no better
  yes,    // at once
  never,  // when a text of any length could be no better
};

// Search for the most likely text by the `beams` most likely beginnings of each length (Sutskever et al., arXiv
// 1409.3215, section 3.2), as transformers' generate() does it.
struct BeamSearch {
  std::int64_t beams = 4;
  double length_penalty = 1;  // the sum of a finished text's log probabilities is divided by its length to this power
  EarlyStopping early_stopping = EarlyStopping::no;
  std::vector<std::int64_t> ends{};  // tokens of which each finishes a text
};

// A token behind one of the beams.
struct BeamCandidate {
  double score = 0;  // the sum of the log probabilities of all of the text's tokens
  std::int64_t beam = 0, token = 0;
};

// How many candidates a step takes: enough that as many beams go on where the others are finished.
std::int64_t candidates_of_step(const BeamSearch& search);
// The best of the beams' next tokens, the best first. scores: [beams, V], the sums with that token.
std::vector<BeamCandidate> best_candidates(std::span<const std::vector<float>> scores, std::int64_t count);

// The search for one prompt's text.
class BeamHypotheses {
 public:
  struct Text {
    double score = 0;                  // of one that is finished divided by the penalty
    std::vector<std::int64_t> tokens;  // that were written, the end included
  };

  // For texts of at most so many tokens.
  BeamHypotheses(BeamSearch search, std::int64_t most_tokens);

  // What goes on: the most likely first. One beginning without tokens before the first step.
  const std::vector<Text>& beams() const { return beams_; }
  // Takes a step from the candidates of these beams, the best first. Returns of each new beam which it was before.
  std::vector<std::int64_t> advance(std::span<const BeamCandidate> candidates);
  bool is_done() const { return is_done_; }
  // The finished texts, the best first, once it is done.
  const std::vector<Text>& finished() const { return finished_; }

 private:
  bool is_full() const { return static_cast<std::int64_t>(finished_.size()) == search_.beams; }
  double penalized(double score, std::int64_t tokens) const;
  void add_finished(Text text);

  BeamSearch search_;
  std::int64_t most_tokens_;
  std::vector<Text> beams_{1};
  std::vector<Text> finished_;
  bool is_done_ = false;
};

}  // namespace llmtrain
