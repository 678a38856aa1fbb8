// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/exchange_tuner.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace llmtrain {

ExchangeTuner::ExchangeTuner(ExchangeMethods methods) : methods_(std::move(methods)) { start_step(0); }

bool ExchangeTuner::may_relay() const {
  return std::any_of(current_.begin(), current_.end(),
                     [](const Current& each) { return each.method.all_to_all == AllToAll::hierarchical; });
}

ExchangeMethod ExchangeTuner::choose(std::int64_t fullest) const {
  return current_[methods_.bucket_of(fullest)].method;
}

void ExchangeTuner::took(std::int64_t fullest, std::function<double()> seconds) {
  passes_.push_back({methods_.bucket_of(fullest), std::move(seconds)});
}

const std::vector<double>& ExchangeTuner::measured() {
  for (const auto& [bucket, seconds] : passes_) {
    measured_[2 * bucket] += 1;
    measured_[2 * bucket + 1] += seconds();
  }
  passes_.clear();
  return measured_;
}

const ExchangeTrial* ExchangeTuner::trial_of(std::size_t bucket) const {
  const auto found = std::find_if(trials_.begin(), trials_.end(), [&](const ExchangeTrial& trial) {
    return trial.step == step_ && trial.bucket == bucket;
  });
  return found != trials_.end() ? &*found : nullptr;
}

ExchangeTuner::Current ExchangeTuner::current_of(std::size_t bucket) const {
  // A step that is repeated, after a checkpoint before it was loaded.
  if (const ExchangeTrial* trial = trial_of(bucket)) return {trial->method, false};
  const std::vector<ExchangeMethod>& methods = methods_.of_buckets[bucket];
  std::vector<std::vector<double>> seconds(methods.size());
  for (const ExchangeTrial& trial : trials_) {
    const auto method = std::find(methods.begin(), methods.end(), trial.method);
    // Only earlier steps count, so that a run that goes back to a checkpoint chooses as it did before.
    if (trial.bucket == bucket && trial.step < step_ && method != methods.end())
      seconds[static_cast<std::size_t>(method - methods.begin())].push_back(trial.seconds);
  }
  const MethodChoice next = next_method(seconds);
  return {methods[next.method], next.is_final};
}

bool ExchangeTuner::has_trials_since(std::int64_t step, std::size_t bucket) const {
  // They are by step.
  for (auto trial = trials_.rbegin(); trial != trials_.rend() && trial->step >= step; ++trial)
    if (trial->bucket == bucket) return true;
  return false;
}

void ExchangeTuner::set_trials(std::vector<ExchangeTrial> trials) {
  trials_ = std::move(trials);
  // What was chosen followed from others.
  for (std::size_t bucket = 0; bucket < current_.size(); ++bucket) current_[bucket] = current_of(bucket);
}

void ExchangeTuner::start_step(std::int64_t step) {
  const std::int64_t before = std::exchange(step_, step);
  current_.resize(methods_.of_buckets.size());
  for (std::size_t bucket = 0; bucket < current_.size(); ++bucket) {
    // A final choice that no trial has come after stays in later steps: it need not be made again in each of a run.
    if (step > before && current_[bucket].is_final && !has_trials_since(before, bucket)) continue;
    current_[bucket] = current_of(bucket);
  }
  measured_.assign(2 * methods_.of_buckets.size(), 0);
  passes_.clear();
}

void ExchangeTuner::end_step(std::span<const double> sums) {
  for (std::size_t bucket = 0; bucket < current_.size(); ++bucket) {
    const double passes = sums[2 * bucket];
    if (passes == 0 || current_[bucket].is_final || trial_of(bucket) != nullptr) continue;
    // The list stays in the order of steps: after a return to a checkpoint it has trials of later ones.
    const auto later =
        std::find_if(trials_.begin(), trials_.end(), [&](const ExchangeTrial& trial) { return trial.step > step_; });
    trials_.insert(later, {step_, bucket, current_[bucket].method, sums[2 * bucket + 1] / passes});
  }
}

}  // namespace llmtrain
