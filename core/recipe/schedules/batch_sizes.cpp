// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/schedules/batch_sizes.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace llmtrain {
namespace {

std::int64_t quotient_up(std::int64_t dividend, std::int64_t divisor) { return (dividend + divisor - 1) / divisor; }

}  // namespace

BatchSizes::BatchSizes(const BatchRecipe& batch) {
  Run run;
  if (const auto& growth = batch.growth) {
    const std::int64_t increments = (batch.global - growth->start) / growth->increment;
    for (std::int64_t done = 0; done < increments;) {
      run.size = growth->start + done * growth->increment;
      runs_.push_back(run);
      // The least samples after which ⌊c · n / samples⌋ is larger.
      const std::int64_t next = quotient_up((done + 1) * growth->samples, increments);
      const std::int64_t steps = quotient_up(next - run.samples_before, run.size);
      run.first_step += steps;
      run.samples_before += steps * run.size;
      // A step may pass several increments. Multiplied only below `samples`, where it cannot overflow.
      done = run.samples_before >= growth->samples ? increments : run.samples_before * increments / growth->samples;
    }
  }
  run.size = batch.global;
  runs_.push_back(run);
}

const BatchSizes::Run& BatchSizes::run_of(std::int64_t step) const {
  return *std::prev(std::ranges::upper_bound(runs_, step, {}, &Run::first_step));
}

std::optional<std::int64_t> BatchSizes::next_change(std::int64_t step) const {
  const auto later = std::ranges::upper_bound(runs_, step, {}, &Run::first_step);
  return later == runs_.end() ? std::nullopt : std::optional(later->first_step);
}

std::int64_t BatchSizes::samples_before(std::int64_t step) const {
  const Run& run = run_of(step);
  return run.samples_before + (step - run.first_step) * run.size;
}

std::int64_t BatchSizes::steps_for(std::int64_t samples) const {
  // The last run that begins with fewer samples; one that begins with just as many is not needed.
  const auto reached = std::ranges::lower_bound(runs_, samples, {}, &Run::samples_before);
  const Run& run = reached == runs_.begin() ? *reached : *std::prev(reached);
  return run.first_step + quotient_up(samples - run.samples_before, run.size);
}

std::int64_t common_batch(const BatchRecipe& batch) {
  if (!batch.growth) return batch.global;
  return std::gcd(batch.global, std::gcd(batch.growth->start, batch.growth->increment));
}

}  // namespace llmtrain
