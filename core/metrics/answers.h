// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/metrics/class_counts.h"

namespace llmtrain {

// An answer as SQuAD's evaluation compares it (Rajpurkar et al., arXiv 1606.05250): lower case, without ASCII's
// punctuation and the words a, an and the, with one space where white space is.
std::string normalized_answer(std::string_view text);

// How well answers that a model has told agree with those of the data, as SQuAD 2.0's evaluation counts it.
class AnswerCounts {
 public:
  // `told` is empty where the model says that there is no answer, and so are `answers` where there is none.
  void add(std::string_view told, std::span<const std::string> answers);

  // "exact_match", the share of answers that are one of the data's, and "f1", the mean of the largest F1 of words with
  // one of these. 0 where there are none.
  std::vector<Figure> figures() const;

 private:
  std::int64_t count_ = 0, exact_ = 0;
  double f1_ = 0;
};

// A span of tokens, by its first and its last one, and the sum of their logits.
struct ScoredSpan {
  double score = 0;
  std::int64_t first = 0, last = 0;
};

// The span with the largest sum of logits, of those that begin and end in the tokens from `begin` to before `end` and
// have `longest` tokens at most; of equal ones the first. None where there is no such token.
std::optional<ScoredSpan> best_span(std::span<const double> start_logits, std::span<const double> end_logits,
                                    std::int64_t begin, std::int64_t end, std::int64_t longest);

}  // namespace llmtrain
