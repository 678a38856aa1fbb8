// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/left_out_state.h"

#include <atomic>
#include <memory>

#include "core/huggingface/adapted_base.h"
#include "parallel/comm/agreement.h"
#include "parallel/engine/model_state.h"

namespace llmtrain {

void load_left_out(LocalModel& model, const CheckpointReader& checkpoint) {
  if (!checkpoint.state().base) return;
  std::unique_ptr<const WeightSource> base;
  Communicator& communicator = model.groups().communicator();
  run_together(communicator, [&] { base = open_base(checkpoint, model.recipe(), model.graph()); });
  run_on_first(communicator,
               [&](const std::atomic<bool>&) { require_same_base(checkpoint, model.recipe(), *base, model.graph()); });
  load_weights(model, *base);
}

}  // namespace llmtrain
