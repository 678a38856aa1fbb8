// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>

#include "parallel/engine/local_model.h"
#include "parallel/engine/stage_exchange.h"

namespace llmtrain {

// Forward passes without a backward through the stages of all ranks, including their transfers. Collective: all ranks
// make the same calls in the same order.
class ForwardPass {
 public:
  enum class Result {
    losses,  // of each token
    logits,  // of micro.logit_rows
  };

  // The model must outlive this.
  explicit ForwardPass(LocalModel& model) : model_(model), exchange_(model) {}

  // The result on ranks with the head, else an undefined tensor. Without a micro-batch the rank only takes part in
  // gathering weights. Does not wait for its sends.
  at::Tensor run(const std::optional<MicroBatch>& micro, Result result);

  // Waits for the sends.
  void finish() { exchange_.finish(); }

 private:
  using Channel = StageExchange::Channel;

  at::Tensor run_stage(std::size_t stage, const MicroBatch& micro, Result result);

  LocalModel& model_;
  StageExchange exchange_;
  int passes_ = 0;
};

}  // namespace llmtrain
