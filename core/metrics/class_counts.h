// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/metrics/entities.h"

namespace llmtrain {

// One of the figures of how good predictions are, by which logs and metrics report it.
struct Figure {
  std::string name;
  double value = 0;
};

// "macro F1" of "macro_f1", and "BLEU" of "bleu".
std::string figure_words(std::string name);

// Whether the figure of this name is a share, from 0 to 1, which people read in percent; BLEU counts from 0 to 100.
bool is_share(std::string_view name);

// Counts of classes that a model has told, which add up over samples and ranks. Where classes tag words, as "B-PER",
// "I-PER" and "O" do, names are counted, too.
class ClassCounts {
 public:
  explicit ClassCounts(std::vector<std::string> classes);

  // Adds one sample, of whose rows these are the classes by number: the labels, and what the model has told.
  void add(std::span<const std::int64_t> labels, std::span<const std::int64_t> told);

  // All counts as numbers, equally many of equal classes, and the other way.
  std::vector<double> numbers() const;
  void add_numbers(std::span<const double> numbers);

  // "accuracy", the share of rows that are told right; "macro_f1", the mean of the F1 of those classes that labels or
  // predictions have, as scikit-learn's f1_score(average="macro") has it; and of tags "entity_f1", seqeval's f1_score.
  // 0 where nothing is divided by.
  std::vector<Figure> figures() const;

 private:
  // What is counted of a class.
  struct Count {
    std::int64_t right = 0, told = 0, there = 0;
  };

  std::vector<std::string> classes_;
  std::vector<Count> counts_;
  bool are_tags_ = false;
  EntityCounts entities_;
};

}  // namespace llmtrain
