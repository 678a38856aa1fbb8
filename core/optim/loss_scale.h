// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/recipe.h"

namespace llmtrain {

// Dynamic loss scaling (Micikevicius et al., arXiv 1710.03740, sections 3.2 and 4): fp16's gradients are those of the
// loss times a power of two, so that small ones do not underflow. It is halved where a gradient overflows, and doubles
// after as many steps in a row in which none does; as torch.amp.GradScaler, with limits. All ranks see the same
// overflows and so have the same scale. Without fp16 it is 1 and stays so.
class LossScale {
 public:
  // As a checkpoint keeps it.
  struct State {
    float value = 1;
    float steps = 0;    // without an overflow, since the scale last changed
    float skipped = 0;  // number of updates that overflows have cost so far
  };

  explicit LossScale(const PrecisionRecipe& precision);

  bool is_dynamic() const { return is_dynamic_; }
  double value() const { return state_.value; }
  const State& state() const { return state_; }
  // Takes a checkpoint's; ignored without fp16. Throws Error(bad_data) unless it is a state that update() makes.
  void set_state(const State& state);
  // Number of updates through `step`, which is counted from 0 and has one: AdamW corrects its bias by this number, and
  // at a large first scale the run would otherwise begin with small updates.
  std::int64_t updates(std::int64_t step) const;
  // After each step. Returns whether the scale has fallen, so that the next step may succeed where this one has
  // overflowed: at 1 it falls no further.
  bool update(bool has_overflowed);

 private:
  bool is_dynamic_;
  double growth_steps_;
  State state_;
};

}  // namespace llmtrain
