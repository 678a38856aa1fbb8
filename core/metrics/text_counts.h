// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/metrics/bleu.h"
#include "core/metrics/class_counts.h"

namespace llmtrain {

// How well texts that a model has written agree with those of the data: counts, which add up over texts and ranks.
class TextCounts {
 public:
  void add(std::string_view written, const std::string& reference);

  // All counts as numbers, always equally many, and the other way.
  std::vector<double> numbers() const;
  void add_numbers(std::span<const double> numbers);

  // "bleu", as of sacrebleu's corpus_bleu() without settings
  // ("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"); "exact_match", the share of texts that are the data's, but for
  // white space at both ends.
  std::vector<Figure> figures() const;

 private:
  BleuCounts bleu_;
  std::int64_t texts_ = 0, equal_ = 0;
};

}  // namespace llmtrain
