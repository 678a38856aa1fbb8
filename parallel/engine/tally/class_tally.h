// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "core/metrics/class_counts.h"
#include "core/model/pass/batch.h"
#include "core/recipe/model_recipe.h"

namespace llmtrain {

// What evaluation counts of a model with a head for classes of samples or tokens; of other models nothing.
class ClassTally {
 public:
  explicit ClassTally(const ModelRecipe& model);

  // The classes that the logits tell, the first of the largest ones, of the rows that count in the batch: of its
  // samples, or of its tokens. Undefined logits, as on ranks without the head, count nothing. Waits for the device.
  void add(const Batch& batch, const at::Tensor& logits);

  // As many on all ranks; 0 of other models.
  std::vector<double> numbers() const { return counts_ ? counts_->numbers() : std::vector<double>(); }
  // What the sums of these numbers come to.
  std::vector<Figure> figures(std::span<const double> numbers) const;

 private:
  std::optional<ClassifierRecipe> classifier_;
  std::optional<ClassCounts> counts_;
};

}  // namespace llmtrain
