// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "parallel/engine/generation/continuous_batch.h"
#include "parallel/shard/rank_lead.h"
#include "tests/parallel/engine/train_ranks.h"

// Models that ranks share, and a batch that they step together.
namespace llmtrain::test::batch_ranks {

// Weights large enough that logits differ by more than rounding, and prompts of two parts.
inline const Overrides small{"model.init_std=0.2", "model.max_sequence_length=300"};
// Two ranks do not divide these tokens: one has a row of padding.
inline const Overrides gpt2{"model.architecture=\"gpt2\"", "model.kv_heads=4", "model.vocab_size=257"};
inline const Overrides llama{"model.qk_norm=true"};
inline const Overrides window{R"(model.sliding_window={"tokens": 21, "global_every": 2})"};
inline const Overrides experts{R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": 0, "shared_experts": 1})"};
inline const Overrides bf16{"precision.compute=\"bf16\""};
inline const Overrides tensor{"parallel.tensor=2"};
inline const Overrides expert_tensor{"parallel.tensor=2", "parallel.expert_tensor=2"};
inline const Overrides pipeline{"parallel.pipeline=2"};

// The same work on all ranks of a model with initial weights.
inline void on_ranks(int ranks, const Overrides& overrides, const std::function<void(LocalModel&)>& work) {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe(overrides);
  LocalWorld(ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    work(trainer.model());
  });
}

// A batch that the others step as often as the rank that leads does: until it is destroyed there.
class SteppedBatch {
 public:
  SteppedBatch(LocalModel& model, const BatchLimits& limits) : lead_(model.groups()), batch_(model, limits) {}

  // Returns at once on the rank that leads, on the others when that has said end().
  void follow() {
    while (!leads() && lead_.tell({}).front() == 1) batch_.step();
  }
  bool leads() const { return batch_.leads(); }
  bool step() {
    lead_.tell({1});
    return batch_.step();
  }
  void run_to_end() {
    while (step()) continue;
    end();
  }
  void end() { lead_.tell({0}); }
  ContinuousBatch& batch() { return batch_; }

 private:
  RankLead lead_;
  ContinuousBatch batch_;
};

}  // namespace llmtrain::test::batch_ranks
