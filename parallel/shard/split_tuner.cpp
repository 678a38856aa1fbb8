// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/split_tuner.h"

#include <algorithm>
#include <utility>

#include "parallel/shard/exchange_trials.h"

namespace llmtrain {

SplitTuner::SplitTuner(std::vector<std::int64_t> splits) : splits_(std::move(splits)) { decide(); }

const SplitTrial* SplitTuner::trial() const {
  const auto found =
      std::find_if(trials_.begin(), trials_.end(), [&](const SplitTrial& each) { return each.step == step_; });
  return found != trials_.end() ? &*found : nullptr;
}

void SplitTuner::decide() {
  // A step that is repeated, after a checkpoint before it was loaded.
  if (const SplitTrial* repeated = trial()) {
    current_ = repeated->split;
    is_final_ = false;
    return;
  }
  std::vector<std::vector<double>> seconds(splits_.size());
  for (const SplitTrial& each : trials_) {
    const auto split = std::find(splits_.begin(), splits_.end(), each.split);
    if (each.step < step_ && split != splits_.end())
      seconds[static_cast<std::size_t>(split - splits_.begin())].push_back(each.seconds);
  }
  const MethodChoice next = next_method(seconds);
  current_ = splits_[next.method];
  is_final_ = next.is_final;
}

void SplitTuner::start_step(std::int64_t step) {
  const bool goes_on = step > step_ && is_final_ && (trials_.empty() || trials_.back().step < step_);
  step_ = step;
  // A choice that no trial has come after need not be made again in each step of a run.
  if (!goes_on) decide();
}

void SplitTuner::end_step(double seconds) {
  if (is_final_ || trial() != nullptr) return;
  const auto later =
      std::find_if(trials_.begin(), trials_.end(), [&](const SplitTrial& each) { return each.step > step_; });
  trials_.insert(later, {step_, current_, seconds});
}

void SplitTuner::set_trials(std::vector<SplitTrial> trials) {
  trials_ = std::move(trials);
  decide();
}

}  // namespace llmtrain
