// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmtrain {

// Means over the layers with experts and the micro-batches of a step.
struct RoutingRow {
  double balance_loss = 0;    // without its coefficient: 1 where routing is even
  double z_loss = 0;          // without its coefficient
  double dropped_share = 0;   // of the tokens' choices, those beyond an expert's capacity
  double expert_load = 0;     // the most tokens that choose an expert ÷ the mean over experts
  double router_entropy = 0;  // of a token's probabilities ÷ that of equal ones
};

// How FP8 represents the tensors of a kind, over all ranks.
struct Fp8Row {
  std::string kind;  // "inputs"
  double amax = 0;   // the largest magnitude
  double smallest_scale = 0, largest_scale = 0;
  double saturated_share = 0, underflowed_share = 0;
  double signal_to_noise = 0;  // dB
};

// One of several terms of the loss, without its coefficient.
struct LossTermRow {
  std::string name;
  double value = 0;
};

// One training row. `step` counts completed steps, so that row 100 and checkpoint 100 belong together.
struct TrainingRow {
  std::int64_t step = 0;
  double loss = 0;  // of all terms, each times its coefficient
  double learning_rate = 0;
  double gradient_norm = 0;
  // Rows of the samples that the run has trained on since its start, whether they count in a loss or not: tokens, or
  // whatever else the model has as rows.
  std::int64_t tokens = 0;
  double step_seconds = 0;
  double tokens_per_second = 0;         // of such rows
  double mfu = 0;                       // of the model's FLOPs for the step's samples
  std::int64_t memory_bytes = 0;        // of the process, peak so far
  std::int64_t tensor_bytes = 0;        // of the first rank's tensors, peak so far
  std::int64_t skipped = 0;             // number of steps so far whose update was skipped
  std::vector<LossTermRow> terms{};     // where there is more than one
  std::optional<RoutingRow> routing{};  // of a model with experts
  std::optional<double> loss_scale{};   // with fp16
  // With FP8 gradients: the share of the step's that are beyond the format's range.
  std::optional<double> saturated_share{};
  // Tokens in each of the step's sequences, where data.curriculum gives it.
  std::optional<double> sequence_length{};
  // Sequences of the step's global batch, with batch.growth.
  std::optional<double> global_batch{};
  // Which share of the samples, the easiest ones, the step read from, with data.curriculum.vocabulary_rarity.
  std::optional<double> easiest_percent{};
  // Tokens of each sequence in layers that drop tokens, with training.token_dropping.
  std::optional<double> kept_tokens{};
  // With memory.arena, of the first rank: the arena's bytes, and the share of the step's bytes that were placed in it.
  std::optional<double> arena_bytes{}, arena_share{};
  std::vector<Fp8Row> fp8{};  // with log.fp8_statistics
  // The step of the checkpoint that the run went on from, in the first row after it.
  std::optional<std::int64_t> resumed_after{};
};

struct EvaluationRow {
  std::int64_t step = 0;
  double validation_loss = 0;        // as TrainingRow::loss
  std::vector<LossTermRow> terms{};  // where there is more than one
  std::vector<LossTermRow> sets{};   // by name, the losses of the sets of validation data that have one
  // What predictions come to beside their loss, as shares from 0 to 1: of a model that tells classes its accuracy, say.
  std::vector<LossTermRow> figures{};
};

}  // namespace llmtrain
