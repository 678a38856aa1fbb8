// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/model/moe/expert_ranks.h"
#include "parallel/layout/exchange_methods.h"
#include "parallel/shard/exchange_trials.h"

namespace llmtrain {

// Finds the fastest exchange between expert ranks for each bucket of micro-batches: it begins with the one of the least
// price, tries the others in the first steps in which the bucket occurs, and keeps the fastest (Hwang et al., arXiv
// 2206.03382). Methods change between steps alone, and follow from times summed over all ranks, so that all ranks
// change alike; the times travel with the step's scalars. The methods of a step are a function of the step and the
// trials before it: with the trials of a run another one repeats it.
class ExchangeTuner final : public ExchangeChooser {
 public:
  // `methods` are open.
  explicit ExchangeTuner(ExchangeMethods methods);

  bool may_relay() const override;
  ExchangeMethod choose(std::int64_t fullest) const override;
  void took(std::int64_t fullest, std::function<double()> seconds) override;

  // Decides how the step's rows go; forgets what has been measured since the last one.
  void start_step(std::int64_t step);
  // What this rank has measured in the step: for each bucket the number of passes and their seconds. Waits for a GPU
  // that has not ended them.
  const std::vector<double>& measured();
  // Ends the step, with the sums of what all ranks have measured.
  void end_step(std::span<const double> sums);

  const ExchangeMethods& methods() const { return methods_; }
  // For each bucket how rows go in this step, and whether that remains so.
  struct Current {
    ExchangeMethod method;
    bool is_final = false;
  };
  const std::vector<Current>& current() const { return current_; }

  // All trials so far, by step; what a run that goes on with them is given. Where steps are repeated, their first
  // trials count.
  const std::vector<ExchangeTrial>& trials() const { return trials_; }
  void set_trials(std::vector<ExchangeTrial> trials);

 private:
  bool has_trials_since(std::int64_t step, std::size_t bucket) const;
  const ExchangeTrial* trial_of(std::size_t bucket) const;  // of this step
  Current current_of(std::size_t bucket) const;

  ExchangeMethods methods_;
  std::vector<ExchangeTrial> trials_;
  std::int64_t step_ = 0;
  std::vector<Current> current_;
  std::vector<double> measured_;
  struct Pass {
    std::size_t bucket = 0;
    std::function<double()> seconds;
  };
  std::vector<Pass> passes_;  // that measured_ does not have yet
};

}  // namespace llmtrain
