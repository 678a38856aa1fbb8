// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/step_shapes.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "core/recipe/schedules/batch_sizes.h"
#include "core/recipe/schedules/length_schedule.h"

namespace llmtrain {
namespace {

StepShape shape_of(const BatchRecipe& batch, LongSamples method, std::int64_t length) {
  switch (method) {
    case LongSamples::truncate:
      return {batch.micro, length};
    case LongSamples::reshape:
      // Rounded down, so that no micro-batch has more tokens than one of whole samples.
      return {batch.micro * batch.sequence_length / length, length};
  }
  return {batch.micro, length};
}

// What changes from step to step.
class Schedules {
 public:
  explicit Schedules(const Recipe& recipe) : batch_(recipe.batch), sizes_(recipe.batch) {
    if (const auto& curriculum = recipe.data.curriculum.sequence_length) {
      method_ = curriculum->method;
      lengths_.emplace(curriculum->schedule, batch_.sequence_length);
    }
    if (const auto& dropping = recipe.training.token_dropping)
      kept_.emplace(dropping->schedule, batch_.sequence_length);
  }

  StepShape at(std::int64_t step) const {
    StepShape shape{batch_.micro, batch_.sequence_length};
    if (lengths_) shape = shape_of(batch_, method_, lengths_->at(step + 1));
    shape.global_batch = sizes_.size_of(step);
    if (kept_ && kept_->at(step) < shape.sequence_length) shape.kept_tokens = kept_->at(step);
    return shape;
  }

  // The first step after this one of another shape; none where that is the last. What is dropped may not change there.
  std::optional<std::int64_t> next_change(std::int64_t step) const {
    std::optional<std::int64_t> next = sizes_.next_change(step);
    if (lengths_)
      if (const auto t = lengths_->next_change(step + 1)) next = std::min(next.value_or(*t - 1), *t - 1);
    if (kept_)
      if (const auto t = kept_->next_change(step)) next = std::min(next.value_or(*t), *t);
    return next;
  }

 private:
  BatchRecipe batch_;
  BatchSizes sizes_;
  LongSamples method_ = LongSamples::truncate;
  std::optional<LengthSchedule> lengths_, kept_;
};

// The layers between those that see all tokens.
std::int64_t dropping_layers(const Recipe& recipe) {
  const auto& dropping = recipe.training.token_dropping;
  return dropping ? recipe.model.layers - dropping->first_layers - dropping->last_layers : 0;
}

}  // namespace

StepShapes::StepShapes(const Recipe& recipe)
    : whole_tokens_(static_cast<double>(recipe.batch.global) * static_cast<double>(recipe.batch.sequence_length)),
      micro_(recipe.batch.micro),
      layers_(recipe.model.layers),
      dropping_layers_(dropping_layers(recipe)) {
  const Schedules schedules(recipe);
  double before = 0;
  for (std::optional<std::int64_t> step = 0; step;) {
    const StepShape shape = schedules.at(*step);
    if (runs_.empty() || runs_.back().shape != shape) runs_.push_back({*step, shape, before});
    const auto next = schedules.next_change(*step);
    if (next) before += share(shape) * static_cast<double>(*next - *step);
    step = next;
  }
}

double StepShapes::share(const StepShape& shape) const {
  std::int64_t length = shape.sequence_length;
  if (shape.kept_tokens > 0)
    length = (length * (layers_ - dropping_layers_) + shape.kept_tokens * dropping_layers_) / layers_;
  const std::int64_t micro_batches = shape.global_batch / micro_;
  return static_cast<double>(micro_batches * shape.sequences * length) / whole_tokens_;
}

const StepShapes::Run& StepShapes::run_of(std::int64_t step) const {
  const auto later = std::upper_bound(runs_.begin(), runs_.end(), step,
                                      [](std::int64_t number, const Run& run) { return number < run.first_step; });
  return *std::prev(later);
}

double StepShapes::whole_steps_before(std::int64_t step) const {
  const Run& run = run_of(step);
  return run.whole_steps_before + share(run.shape) * static_cast<double>(step - run.first_step);
}

double schedule_position(const LearningRateRecipe& recipe, const StepShapes& shapes, std::int64_t step) {
  switch (recipe.clock) {
    case ScheduleClock::steps:
      return static_cast<double>(step);
    case ScheduleClock::tokens:
      return shapes.whole_steps_before(step);
  }
  return static_cast<double>(step);
}

}  // namespace llmtrain
