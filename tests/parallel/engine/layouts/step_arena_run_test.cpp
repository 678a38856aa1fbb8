// SPDX-License-Identifier: Apache-2.0
// Steps whose tensors lie at planned places (memory.arena) train bitwise as others, also where freed memory is NaN.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "parallel/device/arena_memory.h"
#include "tests/parallel/engine/save_ranks.h"

namespace llmtrain::test {
namespace {

struct OfRank {
  Run run;
  std::vector<double> evaluations;
  Saved saved;
  StepArena::Use arena;
};

std::vector<OfRank> train(const TrainingSetting& setting, const RankCase& layout) {
  std::vector<OfRank> ranks(static_cast<std::size_t>(layout.ranks));
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(setting.recipe(layout.overrides), communicator.size()), communicator, at::kCPU);
    OfRank& own = ranks[static_cast<std::size_t>(communicator.rank())];
    for (int round = 0; round < 2; ++round) {
      const Run run = TrainingSetting::train(trainer, 4);
      own.run.losses.insert(own.run.losses.end(), run.losses.begin(), run.losses.end());
      own.run.norms.insert(own.run.norms.end(), run.norms.begin(), run.norms.end());
      own.evaluations.push_back(trainer.evaluate());
    }
    own.saved = saved_of(trainer.model());
    if (trainer.arena() != nullptr) own.arena = trainer.arena()->use();
  });
  return ranks;
}

// The least share of the last step's bytes that is placed on any rank.
double check_same(const RankCase& layout) {
  INFO(in_words(layout.ranks, layout.overrides));
  const TrainingSetting setting;
  const auto expected = train(setting, layout);
  ArenaMemory::poison(true);
  const auto placed = train(setting, {layout.ranks, layout.overrides + Overrides{"memory.arena=true"}});
  ArenaMemory::poison(false);
  double least = 1;
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    check_equal(placed[rank].run, expected[rank].run);
    CHECK(placed[rank].evaluations == expected[rank].evaluations);
    CHECK((placed[rank].saved == expected[rank].saved));
    CHECK(expected[rank].arena.bytes == 0);
    const StepArena::Use& use = placed[rank].arena;
    REQUIRE(use.step_bytes > 0);
    CHECK(use.bytes >= use.least);
    CHECK(static_cast<double>(use.bytes) <= 1.05 * static_cast<double>(use.least));
    least = std::min(least, static_cast<double>(use.placed_bytes) / static_cast<double>(use.step_bytes));
  }
  return least;
}

constexpr const char* experts =
    "model.moe={\"experts\": 4, \"top_k\": 2, \"ffn_hidden_size\": 32, \"capacity_factor\": 0}";

}  // namespace

TEST_CASE("steps in an arena train bitwise as others, and what repeats is placed") {
  // The rest outlives its step, such as gathered weights.
  CHECK(check_same({1, {"batch.micro=2"}}) > 0.98);
  CHECK(check_same({1, {"precision.compute=\"bf16\"", "memory.recompute=\"full\""}}) > 0.98);
  CHECK(check_same({2, {"parallel.zero_stage=3", "batch.micro=2"}}) > 0.9);
  CHECK(check_same({2, {"parallel.pipeline=2", "batch.micro=2"}}) > 0.9);
}

TEST_CASE("steps of experts, whose rows differ, train bitwise as others") {
  // An expert's few rows differ much from step to step here, and have memory of their own where they are more than
  // before.
  CHECK(check_same({1, {experts, "batch.micro=2"}}) > 0.25);
  CHECK(check_same({2, {experts, "parallel.expert=2", "batch.micro=2"}}) > 0.25);
}

}  // namespace llmtrain::test
