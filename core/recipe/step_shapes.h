// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/recipe/lengths/denoising_lengths.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The sizes of a step's micro-batches, and of how many samples they are made.
struct StepShape {
  std::int64_t sequences = 1;        // of a micro-batch
  std::int64_t sequence_length = 1;  // in tokens
  std::int64_t kept_tokens = 0;      // of each sequence in layers that drop tokens; 0: all
  std::int64_t global_batch = 1;     // samples of the data that the step consumes

  std::int64_t tokens() const { return sequences * sequence_length; }

  bool operator==(const StepShape&) const = default;
};

// The shapes of a run's steps, a function of the recipe and the step alone: those of `batch`, with batch.growth fewer
// micro-batches at first (core/recipe/schedules/batch_sizes.h), and with data.curriculum.sequence_length shorter
// sequences at first. A micro-batch then consists of the first tokens of its samples (truncate), or of as many
// sequences as its samples have tokens for (reshape): those that fill each sample from its start on, and where tokens
// are still left, the last ones of each sample. With training.token_dropping some layers see a part of each sequence.
// As in DeepSpeed, the first step has t = 1 in the schedule of lengths and t = 0 in that of kept tokens.
class StepShapes {
 public:
  explicit StepShapes(const Recipe& recipe);

  // `step` counts from 0.
  const StepShape& at(std::int64_t step) const { return run_of(step).shape; }

  // Tokens of all steps before this one ÷ those of a step with the shape of `batch`. With token dropping a sequence
  // counts as the mean of its tokens over the layers, rounded down, as in DeepSpeed.
  double whole_steps_before(std::int64_t step) const;

  // Successive steps of one shape.
  struct Run {
    std::int64_t first_step = 0;
    StepShape shape;
    double whole_steps_before = 0;
  };
  // In order; the last one has no end. At least one.
  const std::vector<Run>& runs() const { return runs_; }

 private:
  const Run& run_of(std::int64_t step) const;
  double share(const StepShape& shape) const;

  double whole_tokens_;  // of a whole step
  std::int64_t micro_;
  std::int64_t layers_, dropping_layers_;
  std::vector<Run> runs_;
};

// Samples of a step with this shape, over all ranks: sequences, for a decoder.
inline std::int64_t samples_of_step(const Recipe& recipe, const StepShape& shape) {
  return shape.global_batch / recipe.batch.micro * shape.sequences;
}

// Tokens of the sequence that a decoder writes of each sample, where an encoder reads another one; else 0.
inline std::int64_t target_length(const Recipe& recipe) {
  if (!is_encoder_decoder(recipe.model.architecture)) return 0;
  const DataRecipe& data = recipe.data;
  if (data.denoising) return denoising_target_length(*data.denoising, recipe.batch.sequence_length);
  return data.pairs && data.pairs->target_length ? *data.pairs->target_length : recipe.batch.sequence_length;
}

// Rows of these samples, whether they count in a loss or not: tokens of all their sequences.
inline std::int64_t tokens_of_step(const Recipe& recipe, const StepShape& shape) {
  return samples_of_step(recipe, shape) * (shape.sequence_length + target_length(recipe));
}

// Where the learning rate of a step (from 0) is on its schedule, in steps: by the recipe's clock.
double schedule_position(const LearningRateRecipe& recipe, const StepShapes& shapes, std::int64_t step);

}  // namespace llmtrain
