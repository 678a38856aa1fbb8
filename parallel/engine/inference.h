// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/data/samples/sample_source.h"
#include "core/graph/loss_term.h"
#include "core/metrics/class_counts.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

struct Evaluation {
  double loss = 0;                 // sum of the terms of rows, each times its coefficient
  std::vector<LossValue> terms{};  // these terms
  std::int64_t tokens = 0;         // the rows that count in the first of them: of a decoder tokens
  std::vector<Figure> figures{};   // of predictions: of classes, or of texts that the model writes
  std::vector<LossValue> sets{};   // the losses of a run's named sets of validation data, of which this is one
};

// The model's loss on the first `samples` samples of the data (0: one pass over them), in micro-batches of the recipe's
// size that the ranks share. Collective: all ranks of the model call it together and get the same result; blocks. Keeps
// no activations and applies no dropout.
Evaluation evaluate(LocalModel& model, const SampleSource& data, std::int64_t samples);

// Is told a few times per second which share of an evaluation is done, and says whether this rank is asked to stop it.
// All ranks are told at the same point, so that it may be collective.
using EvaluationWatch = std::function<bool(double share)>;

// Which tokens experts drop: those beyond the capacity that the recipe gives for a micro-batch, as in training, or
// none, so that no sample's loss depends on those beside it.
enum class ExpertDrops { beyond_capacity, none };

// The same, and nothing where the watch of any rank has stopped it, which all ranks hear at the same point.
std::optional<Evaluation> evaluate(LocalModel& model, const SampleSource& data, std::int64_t samples,
                                   const EvaluationWatch& watch, ExpertDrops drops = ExpertDrops::beyond_capacity);

// Logits [T, vocab_size] in fp32, on the CPU, of one sequence of T tokens (int64, on the CPU), T ≤ max_sequence_length,
// all computed at once. Collective, as evaluate() is; undefined on ranks without the head.
at::Tensor logits_of(LocalModel& model, const at::Tensor& tokens);

}  // namespace llmtrain
