// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/data/dataset.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

struct Evaluation {
  double loss = 0;          // mean over the tokens
  std::int64_t tokens = 0;  // how many that were
};

// The model's loss on the first `samples` samples of the data set (all of one pass when 0), micro-batches of its
// recipe's size, which the model's ranks share: all call it together, and get the same. Keeps no activations and drops
// nothing.
Evaluation evaluate(LocalModel& model, const Dataset& dataset, std::int64_t samples);

// Logits [T, vocab_size] in fp32 of one sequence of T tokens (int64, on the CPU), T ≤ max_sequence_length. The whole
// weights must be here: not at ZeRO-3. Tensor ranks call it together, and get the same.
at::Tensor logits_of(LocalModel& model, const at::Tensor& tokens);

}  // namespace llmtrain
