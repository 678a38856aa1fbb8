// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/recipe/recipe.h"

namespace llmtrain {

// The tokens per step while their number grows from `start` to `longest` (Li et al., arXiv 2212.03597, as
// DeepSpeed's fixed_linear and fixed_root compute it): with T = steps and r = degree
//   ⌊start + (longest − start) · (t / T)^(1/r)⌋, rounded down to a multiple, at t < T; `longest` from T on.
class LengthSchedule {
 public:
  // The start is at most `longest`, and steps, multiple and degree are at least 1.
  LengthSchedule(const LengthScheduleRecipe& recipe, std::int64_t longest) : recipe_(recipe), longest_(longest) {}

  // Never falls as t (from 0) grows.
  std::int64_t at(std::int64_t t) const;
  // The first t after this one with more tokens; none where they are `longest`.
  std::optional<std::int64_t> next_change(std::int64_t t) const;

 private:
  LengthScheduleRecipe recipe_;
  std::int64_t longest_;
};

}  // namespace llmtrain
