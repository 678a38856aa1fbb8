// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/data/samples/dataset.h"
#include "core/metrics/class_counts.h"
#include "core/model/pass/batch.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// What evaluation finds of the answers that a model with a head for spans tells: for each sample, a window of a text,
// its best span and the score of the first token, which stands for no answer. Windows of a text may be on several
// ranks, so that answers are told from the sums of these. Of other models, and other data, nothing.
class SpanTally {
 public:
  // Finds answers in the first `samples` samples. The data outlive this.
  SpanTally(const Recipe& recipe, const SampleSource& data, std::int64_t samples);

  // `logits` [starts and ends of the batch's samples, rows], of the samples from number `first` on. Undefined logits,
  // as on ranks without the head, count nothing. Waits for the device.
  void add(std::int64_t first, const Batch& batch, const at::Tensor& logits);

  // As many on all ranks; 0 of other models.
  const std::vector<double>& numbers() const { return numbers_; }
  // What the sums of these numbers come to (core/metrics/answers.h), as SQuAD tells answers: the best span of all
  // windows of a text, or none where that is allowed and the score of no answer, the lowest of all windows, is higher.
  // Questions of which some windows are no such samples are left out.
  std::vector<Figure> figures(std::span<const double> numbers) const;

 private:
  std::optional<SpansRecipe> spans_;
  const Dataset* data_ = nullptr;
  std::vector<double> numbers_;
};

}  // namespace llmtrain
