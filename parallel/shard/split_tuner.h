// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmtrain {

// What was measured of a step.
struct SplitTrial {
  std::int64_t step = 0;   // from 0
  std::int64_t split = 0;  // ranks that split the products of an expert
  double seconds = 0;      // from the step's start to its gradients' norm, in the mean over the ranks

  bool operator==(const SplitTrial&) const = default;
};

// Finds the fastest split of the experts' products (expert_splits.h): it begins with the one of the least price, tries
// the others in the first steps, and keeps the fastest (Hwang et al., arXiv 2206.03382). The split of a step is a
// function of the step and the trials before it: with the trials of a run another one repeats it.
class SplitTuner {
 public:
  // The most promising one first.
  explicit SplitTuner(std::vector<std::int64_t> splits);

  // Decides the step's split.
  void start_step(std::int64_t step);
  // Ends the step, with the same number on all ranks.
  void end_step(double seconds);

  std::int64_t current() const { return current_; }
  bool is_final() const { return is_final_; }  // whether it remains so
  const std::vector<std::int64_t>& splits() const { return splits_; }

  // All trials so far, by step; what a run that goes on with them is given. Where steps are repeated, their first
  // trials count.
  const std::vector<SplitTrial>& trials() const { return trials_; }
  void set_trials(std::vector<SplitTrial> trials);

 private:
  const SplitTrial* trial() const;  // of this step
  void decide();

  std::vector<std::int64_t> splits_;
  std::vector<SplitTrial> trials_;
  std::int64_t step_ = 0;
  std::int64_t current_ = 1;
  bool is_final_ = false;
};

}  // namespace llmtrain
