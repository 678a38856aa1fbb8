// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/parallel/engine/train_ranks.h"

// Models with experts, and ranks that share them.
namespace llmtrain::test {

inline const Overrides dropless{
    R"(model.moe={"experts": 8, "top_k": 2, "capacity_factor": 0, "ffn_hidden_size": 20, "z_coefficient": 0.01})",
    "batch.micro=1"};
inline const Overrides dropping{R"(model.moe={"experts": 8, "top_k": 2, "ffn_hidden_size": 20, "shared_experts": 1})",
                                "model.architecture=\"gpt2\"", "batch.micro=1"};

// Places go to the highest scores of a micro-batch of several sequences, jitter is of each element, noise of each
// logit, the balance loss is of a micro-batch's sums, shared experts have a gate, and all networks biases, which grow
// fast.
inline const Overrides scored{
    R"(model.moe={"experts": 4, "top_k": 2, "ffn_hidden_size": 20, "shared_experts": 1, "shared_gate": true,
      "capacity_factor": 0.7, "priority": "score", "jitter": 0.1, "z_coefficient": 0.01, "balance_coefficient": 0.1,
      "balance_loss": "load_importance"})",
    "model.architecture=\"gpt2\"", "batch.micro=2", R"(training.learning_rate={"peak": 0.003, "warmup_steps": 0})"};

// A cosine router, whose projection and temperature all ranks have.
inline const Overrides cosine{
    R"(model.moe={"experts": 8, "top_k": 2, "ffn_hidden_size": 20, "router": "cosine", "capacity_factor": 0.7,
      "priority": "score", "jitter": 0.1, "z_coefficient": 0.01, "balance_coefficient": 0.1})",
    "batch.micro=1"};

inline std::string tensor(int ranks) { return "parallel.tensor=" + std::to_string(ranks); }

inline std::string context(int ranks) { return "parallel.context=" + std::to_string(ranks); }

inline std::string experts(int ranks) { return "parallel.expert=" + std::to_string(ranks); }

// As many ranks on each of two nodes.
inline Overrides two_nodes(int ranks) {
  return {"parallel.expert_all_to_all=\"hierarchical\"", "cluster.nodes=2",
          "cluster.devices_per_node=" + std::to_string(ranks)};
}

inline std::string sliced(int ranks) { return "parallel.expert_tensor=" + std::to_string(ranks); }

inline std::string parts(int number) { return "parallel.expert_overlap=" + std::to_string(number); }

// Ranks that share the tokens of a micro-batch.
inline std::vector<RankCase> shared_micro_batches() {
  return {{2, {context(2)}},
          {4, {context(4), zero(1)}},
          {4, {context(2), experts(2), parts(4), "memory.recompute=\"full\""}},
          {8, {context(2), experts(2), zero(3), "pipeline.loops=3"}},
          {8, {context(2), experts(2), zero(1), "parallel.pipeline=2", "pipeline.balance=[1,2]"}},
          {2, {tensor(2)}},
          {2, {tensor(2), "parallel.sequence=false"}},
          {4, {tensor(4), "parallel.expert_tensor=2", zero(2), "pipeline.loops=3"}},
          {4, {tensor(2), experts(2), "memory.recompute=\"full\""}},
          {4, {tensor(2), experts(2), parts(3)}},
          {4, {tensor(2), sliced(1), experts(2), zero(3), "pipeline.loops=3"}},
          {4, {tensor(2), sliced(1), experts(4)}},
          {4, {tensor(2), context(2), sliced(1), experts(4), "parallel.sequence=false", parts(2)}},
          {4, {tensor(4), sliced(2), experts(2), zero(1)}},
          {8, {tensor(2), context(2), sliced(1), experts(4), zero(3), "pipeline.loops=3"}},
          {8, {tensor(2), context(2), sliced(2), experts(2), zero(3), "parallel.pipeline=2", "pipeline.balance=[1,2]"}},
          {8, {tensor(2), experts(2), sliced(4), zero(1)}},
          {8, {tensor(2), "parallel.sequence=false", experts(2), context(2), "memory.recompute=\"selective\""}},
          {8, {tensor(2), context(2), zero(1), "parallel.pipeline=2", "pipeline.balance=[1,2]"}},
          {8, {tensor(2), context(2), zero(3), "parallel.pipeline=2", "pipeline.balance=[1,2]"}}};
}

// A step's loss, gradient norm and routing, of which other layouts have other numbers of passes.
inline void check_same_step(const StepResult& got, const StepResult& expected) {
  CHECK(got.loss == Approx(expected.loss).epsilon(1e-5));
  CHECK(got.gradient_norm == Approx(expected.gradient_norm).epsilon(1e-4));
  for (double RoutingSums::*const value : {&RoutingSums::dropped_share, &RoutingSums::load, &RoutingSums::balance_loss,
                                           &RoutingSums::z_loss, &RoutingSums::entropy})
    CHECK(got.routing.*value / got.routing.passes ==
          Approx(expected.routing.*value / expected.routing.passes).epsilon(1e-5));
}

// What every rank returned of a few steps.
inline std::vector<std::vector<StepResult>> steps_of(const Recipe& recipe, int ranks, int steps) {
  std::vector<std::vector<StepResult>> results(static_cast<std::size_t>(ranks));
  LocalWorld(ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    for (int step = 0; step < steps; ++step)
      results[static_cast<std::size_t>(communicator.rank())].push_back(trainer.step());
  });
  return results;
}

}  // namespace llmtrain::test
