// SPDX-License-Identifier: Apache-2.0
// Weights that are updated in the backward (training.update_in_backward) are bitwise those of an update after it.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/parallel/engine/save_ranks.h"

namespace llmtrain::test {
namespace {

struct OfRank {
  Run run;
  Saved saved;
  std::int64_t gradients = 0;  // bytes, between steps
};

std::vector<OfRank> train(const TrainingSetting& setting, const RankCase& layout) {
  std::vector<OfRank> ranks(static_cast<std::size_t>(layout.ranks));
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(setting.recipe(layout.overrides), communicator.size()), communicator, at::kCPU);
    OfRank& own = ranks[static_cast<std::size_t>(communicator.rank())];
    own.run = TrainingSetting::train(trainer, 5);
    own.saved = saved_of(trainer.model());
    for (const ParameterUnit* unit : trainer.model().units()) own.gradients += unit->parameters->bytes().gradients;
  });
  return ranks;
}

enum class Gradients { all_freed, some_kept };

void check_same(const RankCase& layout, Gradients gradients = Gradients::all_freed) {
  INFO(in_words(layout.ranks, layout.overrides));
  const TrainingSetting setting;
  const Overrides overrides = layout.overrides + Overrides{"training.clip_norm=0"};
  const auto expected = train(setting, {layout.ranks, overrides});
  const auto updated = train(setting, {layout.ranks, overrides + Overrides{"training.update_in_backward=true"}});
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    check_equal(updated[rank].run, expected[rank].run);
    CHECK((updated[rank].saved == expected[rank].saved));
    CHECK(expected[rank].gradients > 0);
    if (gradients == Gradients::all_freed)
      CHECK(updated[rank].gradients == 0);
    else
      CHECK(updated[rank].gradients < expected[rank].gradients);
  }
}

constexpr const char* experts =
    "model.moe={\"experts\": 4, \"top_k\": 2, \"ffn_hidden_size\": 32, \"capacity_factor\": 0}";

}  // namespace

TEST_CASE("one rank updates its stages in the backward") {
  check_same({1, {"pipeline.loops=3"}});
  check_same({1, {"pipeline.loops=3", "batch.micro=2", "model.tie_embeddings=true", "memory.recompute=\"full\""}});
  check_same({1,
              {"pipeline.loops=3", "batch.micro=2", "pipeline.schedule=\"breadth_first\"", "precision.compute=\"bf16\"",
               "memory.arena=true"}});
  check_same({1, {"pipeline.loops=3", "training.optimizer.name=\"muon\"", "training.freeze=[\"layers.1.*\"]"}});
  check_same({1,
              {experts, "pipeline.loops=3", "batch.growth={\"start\": 4, \"increment\": 4, \"samples\": 16}",
               "batch.micro=4"}});
}

TEST_CASE("ranks that share parameters update them after their reduction") {
  check_same({2, {"pipeline.loops=3", "batch.micro=2"}});
  check_same({2, {"pipeline.loops=3", "batch.micro=2", "parallel.zero_stage=1", "parallel.overlap=false"}});
  check_same({2, {"pipeline.loops=3", "batch.micro=2", "parallel.zero_stage=2", "training.optimizer.name=\"muon\""}});
  check_same({2, {"pipeline.loops=3", "batch.micro=2", "parallel.zero_stage=3", "model.tie_embeddings=true"}});
  check_same({2, {experts, "pipeline.loops=3", "batch.micro=2", "parallel.expert=2"}});
}

TEST_CASE("ranks of a tensor group and of a pipeline update their parts") {
  check_same({2, {"pipeline.loops=3", "parallel.tensor=2"}});
  // What both ends of a pipeline have is reduced at the end of the step.
  check_same(
      {2, {"pipeline.loops=2", "parallel.pipeline=2", "batch.micro=2", "model.tie_embeddings=true", "model.layers=4"}},
      Gradients::some_kept);
}

}  // namespace llmtrain::test
