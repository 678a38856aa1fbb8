// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// How many samples each step's global batch has, a function of the recipe and the step alone: batch.global, or with
// batch.growth fewer at first, as Megatron-LM's --rampup-batch-size START INCREMENT SAMPLES computes it. With
// n = (global − start) / increment, a step before which c samples were consumed has
//   start + ⌊c · n / samples⌋ · increment  at c < samples,  and global from there on.
class BatchSizes {
 public:
  // The increment divides global − start, which is above 0.
  explicit BatchSizes(const BatchRecipe& batch);

  // Successive steps with batches of one size.
  struct Run {
    std::int64_t first_step = 0;
    std::int64_t size = 0;            // in samples
    std::int64_t samples_before = 0;  // of all earlier steps
  };
  // In order, the sizes ascending; the last one has no end. At least one.
  const std::vector<Run>& runs() const { return runs_; }

  // `step` counts from 0.
  std::int64_t size_of(std::int64_t step) const { return run_of(step).size; }
  // The first step after this one with a larger batch; none where it is batch.global.
  std::optional<std::int64_t> next_change(std::int64_t step) const;
  // Samples of all steps before this one.
  std::int64_t samples_before(std::int64_t step) const;
  // The first number of steps that have at least so many samples.
  std::int64_t steps_for(std::int64_t samples) const;

 private:
  const Run& run_of(std::int64_t step) const;

  std::vector<Run> runs_;
};

// The largest number of which all sizes of the global batch are multiples: what divides it divides each of them.
std::int64_t common_batch(const BatchRecipe& batch);

}  // namespace llmtrain
