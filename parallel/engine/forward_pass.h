// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>

#include "core/model/pass/pass_context.h"
#include "parallel/engine/local_model.h"
#include "parallel/engine/stage_exchange.h"

namespace llmtrain {

// Forward passes without a backward through the stages of all ranks, including their transfers. Collective: all ranks
// make the same calls in the same order.
class ForwardPass {
 public:
  // The model must outlive this.
  explicit ForwardPass(LocalModel& model) : model_(model), exchange_(model) {}

  // What this rank's stages return beside values: the losses of the terms that their blocks raise, and in prediction,
  // on ranks with a head, its logits of the rows that are asked for. Without an input the rank only takes part in
  // gathering weights. Does not wait for its sends.
  StagePasses::Output run(const std::optional<PassInput>& input);

  // Waits for the sends.
  void finish() { exchange_.finish(); }

 private:
  using Channel = StageExchange::Channel;

  // Leaves in `output` what run() returns.
  void run_stage(std::size_t stage, const PassInput& given, StagePasses::Output& output);

  LocalModel& model_;
  StageExchange exchange_;
  int passes_ = 0;
};

}  // namespace llmtrain
