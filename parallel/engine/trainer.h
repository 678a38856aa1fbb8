// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "core/checkpoint/checkpoint.h"
#include "core/data/dataset.h"
#include "core/recipe/recipe.h"
#include "parallel/comm/communicator.h"
#include "parallel/engine/local_model.h"
#include "parallel/engine/runner.h"
#include "parallel/plan/mesh.h"
#include "parallel/plan/schedule.h"

namespace llmtrain {

// A model, its optimizer and its data: everything that training steps need, and nothing of what a run leaves on the
// disk. Blocking. Throws Error for what the recipe's files cannot be.
class Trainer {
 public:
  // Opens the data, builds the model with its first weights (the recipe's init_from, else its seed). Without a
  // communicator this rank trains alone, whatever the recipe says of others; else all ranks of its world build theirs
  // together, as one of the layout that the recipe gives a world of this size, and make the same calls. Without a
  // device it takes the one that the recipe asks for.
  explicit Trainer(const Recipe& recipe, Communicator* communicator = nullptr,
                   std::optional<at::Device> device = std::nullopt);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  std::int64_t steps_done() const { return steps_done_; }
  StepResult step(StopRequest stop = StopRequest::none);

  // Mean loss over the validation data: training.evaluate_batches global batches of it, or all. The recipe must name
  // validation data.
  double evaluate();

  // What a checkpoint says beside its tensors; model_state.h makes those.
  CheckpointState state() const;
  // Goes on from a checkpoint of the same model as if training had never stopped.
  void resume(const CheckpointReader& checkpoint);

  const Recipe& recipe() const { return recipe_; }
  const Dataset& train_data() const { return train_; }
  const Dataset* validation_data() const { return validation_ ? &*validation_ : nullptr; }
  LocalModel& model() { return model_; }
  // What one step does on this rank.
  const RankSchedule& schedule() const { return schedule_; }
  Runner& runner() { return runner_; }

 private:
  Recipe recipe_;
  Mesh mesh_;
  Dataset train_;
  std::optional<Dataset> validation_;
  LocalModel model_;
  RankSchedule schedule_;
  Runner runner_;
  std::int64_t steps_done_ = 0;
};

}  // namespace llmtrain
