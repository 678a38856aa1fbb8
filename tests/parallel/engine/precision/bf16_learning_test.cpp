// SPDX-License-Identifier: Apache-2.0
// What bf16 and fp16 learn is what fp32 learns. Losses alone do not tell: they start near each other and move little in
// a few steps, also where no weight ever changes. The weights' changes do.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

constexpr std::int64_t steps = 6;

// The weights that this rank owns, in their most exact form.
at::Tensor owned_weights(const LocalModel& model) {
  std::vector<at::Tensor> owned;
  for (const ParameterUnit* unit : model.units())
    owned.push_back(unit->parameters->source().slice(0, 0, unit->parameters->owned().count()).to(at::kDouble));
  return at::cat(owned);
}

// By rank.
using Changes = std::vector<at::Tensor>;

Changes learn(const TrainingSetting& setting, int ranks, const Overrides& overrides) {
  // A small epsilon makes of the smallest gradients, which are rounding alone, as large steps as of the others.
  const Recipe recipe =
      setting.recipe(overrides + Overrides{"training.optimizer.eps=1e-3", "training.learning_rate.peak=0.01"});
  Changes changes(static_cast<std::size_t>(ranks));
  LocalWorld(ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, ranks), communicator, at::kCPU);
    const at::Tensor before = owned_weights(trainer.model());
    for (std::int64_t i = 0; i < steps; ++i) trainer.step();
    changes[static_cast<std::size_t>(communicator.rank())] = owned_weights(trainer.model()) - before;
  });
  return changes;
}

// ‖got − expected‖ ÷ ‖expected‖ over all ranks: 1 where nothing was learnt.
double distance(const Changes& got, const Changes& expected) {
  double difference = 0, size = 0;
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    REQUIRE(got[rank].numel() == expected[rank].numel());
    difference += (got[rank] - expected[rank]).square().sum().item<double>();
    size += expected[rank].square().sum().item<double>();
  }
  return std::sqrt(difference / size);
}

std::vector<RankCase> layouts() {
  const std::string micro = "batch.micro=1";
  return {{1, {}},
          {1, {micro, "pipeline.loops=3", "memory.recompute=\"full\""}},
          {1, {"model.architecture=\"gpt2\"", "model.dropout=0.1", "model.kv_heads=4"}},
          {2, {micro, zero(1)}},
          {4, {micro, zero(2), "parallel.zero_shard_ranks=2"}},
          {2, {micro, zero(3), "pipeline.loops=3"}},
          {2, {"batch.micro=2", "parallel.tensor=2", "parallel.sequence=true"}},
          {2, {"batch.micro=2", "parallel.context=2"}},
          {2, {"batch.micro=2", "parallel.pipeline=2", "pipeline.balance=[1,2]", "model.tie_embeddings=true"}}};
}

}  // namespace

TEST_CASE("16 bits change the weights as fp32 does", "[ranks]") {
  const TrainingSetting setting;
  for (const RankCase& layout : layouts()) {
    const Changes expected = learn(setting, layout.ranks, layout.overrides);
    for (const Overrides& types : {Overrides{"precision.compute=\"bf16\""},
                                   Overrides{"precision.compute=\"bf16\"", "precision.gradients=\"bf16\""},
                                   Overrides{"precision.compute=\"fp16\"", "precision.gradients=\"fp16\"",
                                             "precision.loss_scale.initial=1024"}}) {
      INFO(in_words(layout.ranks, layout.overrides + types));
      CHECK(distance(learn(setting, layout.ranks, layout.overrides + types), expected) < 0.01);
    }
  }
}

}  // namespace llmtrain::test
