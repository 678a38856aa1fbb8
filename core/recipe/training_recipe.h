// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/data_recipe.h"

namespace llmtrain {

// The recipe's section `training`, as core/recipe/recipe.h describes recipes.

enum class LearningRateSchedule { cosine, linear, constant, wsd, inverse_sqrt, cosine_restarts };

// How the decay of wsd falls from the peak (1) to the minimum (0), by the fraction p of its steps: 1 − p, 1 − √p
// (Hägele et al., arXiv 2405.18392, section 3.1), or half a cosine.
enum class DecayShape { linear, one_minus_sqrt, cosine };

// What moves the learning rate along its schedule.
enum class ScheduleClock { steps, tokens };

enum class OptimizerKind { adamw, muon };

// What an orthogonalised update is multiplied with, in a matrix of so many rows (outputs) and columns (inputs).
enum class MuonScale {
  match_rms_adamw,  // 0.2·√max(rows, columns): as large as AdamW's updates (Liu et al., arXiv 2502.16982, section 2.2)
  original,         // √max(1, rows ÷ columns) (Jordan et al., 2024)
};

struct MuonRecipe {
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t steps = 5;  // of the Newton-Schulz iteration
  MuonScale scale = MuonScale::match_rms_adamw;

  bool operator==(const MuonRecipe&) const = default;
};

struct OptimizerRecipe {
  OptimizerKind name = OptimizerKind::adamw;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  MuonRecipe muon{};

  bool operator==(const OptimizerRecipe&) const = default;
};

struct LearningRateRecipe {
  LearningRateSchedule schedule = LearningRateSchedule::cosine;
  ScheduleClock clock = ScheduleClock::steps;
  double peak = 3e-4;
  double minimum = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;
  std::optional<std::int64_t> decay_length = std::nullopt;  // of wsd; none: a fifth of decay_steps
  DecayShape decay_shape = DecayShape::linear;
  std::int64_t cycles = 1;  // of cosine_restarts

  // Whether it reaches its minimum at decay_steps.
  bool ends() const {
    return schedule != LearningRateSchedule::constant && schedule != LearningRateSchedule::inverse_sqrt;
  }

  bool operator==(const LearningRateRecipe&) const = default;
};

// Which losses and gradient norms are spikes, in standard deviations above the mean of the updates before.
inline constexpr std::int64_t longest_spike_window = 10'000;

struct SpikeRecipe {
  double loss = 0;           // 0: none is
  double gradient_norm = 0;  // 0: none is
  std::int64_t window = 128;

  bool operator==(const SpikeRecipe&) const = default;
};

// Ends a run whose validation loss falls no more.
struct EarlyStoppingRecipe {
  std::int64_t evaluations = 0;  // in a row without progress
  double improvement = 0;        // progress is a loss that is lower than the best one by more than this

  bool operator==(const EarlyStoppingRecipe&) const = default;
};

// Evaluations let the model write targets of sources that it has not seen, and compare them with the data's.
struct GenerationRecipe {
  std::int64_t samples = 256;  // at most, the first of the judged validation data
  std::int64_t beams = 1;      // 1: the most likely token each time

  bool operator==(const GenerationRecipe&) const = default;
};

// Random layerwise token dropping (Yao et al., arXiv 2211.11586): the layers between the first and the last ones train
// on a random part of each sequence.
struct TokenDroppingRecipe {
  LengthScheduleRecipe schedule{.multiple = 16};
  std::int64_t first_layers = 1;
  std::int64_t last_layers = 1;

  bool operator==(const TokenDroppingRecipe&) const = default;
};

struct TrainingRecipe {
  std::int64_t steps = 0;                    // 0: those of `epochs`, which have not been counted yet
  std::optional<double> epochs;              // none: they have been turned into steps, or were never given
  std::optional<std::string> init_from;      // a checkpoint folder, or "hf:DIR"
  std::optional<std::string> adapters_from;  // a folder of PEFT
  std::int64_t evaluate_every = 0;           // 0: never
  std::int64_t evaluate_batches = 0;         // global batches per evaluation; 0: the whole validation data
  std::optional<std::string> judged_by;      // the set of validation data; none: the first
  std::optional<EarlyStoppingRecipe> early_stopping;
  std::optional<GenerationRecipe> generation;
  double label_smoothing = 0;
  double clip_norm = 1;  // 0: off
  SpikeRecipe spikes;
  bool update_in_backward = false;  // of a stage's weights, as soon as their gradients are final
  std::int64_t skip_limit = 10;     // 0: none
  std::int64_t rollbacks = 0;
  std::vector<std::string> freeze;  // patterns of names, in which * stands for any text
  std::optional<TokenDroppingRecipe> token_dropping;
  OptimizerRecipe optimizer;
  LearningRateRecipe learning_rate;

  // Whether `steps` still has to be counted in the data.
  bool counts_steps() const { return epochs && steps == 0; }

  bool operator==(const TrainingRecipe&) const = default;
};

}  // namespace llmtrain
