// SPDX-License-Identifier: Apache-2.0
// Several ranks learn what one rank learns: compared with the single-rank run, and with the plan.
#include <catch2/catch.hpp>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/engine/trainer.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

// Every world with every ZeRO stage, and loops, schedules and micro-batches in turn.
std::vector<RankCase> layouts() {
  const std::vector<Overrides> cuts{
      {"batch.micro=1"},
      {"batch.micro=1", "pipeline.loops=3", "pipeline.schedule=\"breadth_first\""},
      {"batch.micro=1", "pipeline.loops=3", "pipeline.schedule=\"interleaved\""},
      {"batch.micro=1", "pipeline.loops=5", "pipeline.balance=\"blocks\"", "pipeline.schedule=\"breadth_first\""},
      {"batch.micro=1", "pipeline.loops=2", "pipeline.balance=[1,2]", "pipeline.schedule=\"1f1b\"",
       "parallel.overlap=false"},
      {"batch.micro=1", "pipeline.loops=3", "pipeline.schedule=\"gpipe\"", "memory.recompute=\"full\""},
      {"batch.micro=2", "pipeline.loops=3"},
  };
  std::vector<RankCase> layouts;
  std::size_t next = 0;
  for (const int ranks : {2, 4, 8}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (int i = 0; i < (ranks == 8 ? 1 : 3); ++i) {
        Overrides cut = cuts[next++ % cuts.size()];
        if (ranks == 8) cut.front() = "batch.micro=1";
        layouts.push_back({ranks, cut + Overrides{zero(stage)}});
      }
    }
  }
  return layouts;
}

}  // namespace

TEST_CASE("ranks that share the batch learn what one rank learns", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model =
      GENERATE(Overrides{}, Overrides{"model.architecture=\"gpt2\"", "model.dropout=0.1"},
               Overrides{"model.tie_embeddings=true", "model.vocab_size=257", "model.qk_norm=true"});
  const Run expected = setting.train(model, 20);
  for (const RankCase& layout : layouts()) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_close(train_ranks(setting, layout.ranks, model + layout.overrides), expected, 1e-5, 1e-4);
  }
}

TEST_CASE("a layout is bitwise reproducible, also across ZeRO stages", "[ranks]") {
  const TrainingSetting setting;
  const Overrides compute = GENERATE(Overrides{}, Overrides{"precision.compute=\"bf16\""});
  // Reduces each stage once per step at every ZeRO stage.
  const Overrides cut = Overrides{"batch.micro=1", "pipeline.loops=3", "pipeline.schedule=\"breadth_first\""} + compute;
  const Run expected = train_ranks(setting, 4, cut, 6);
  check_equal(train_ranks(setting, 4, cut, 6), expected);
  for (int stage = 1; stage <= 3; ++stage)
    check_equal(train_ranks(setting, 4, cut + Overrides{zero(stage)}, 6), expected);
}

TEST_CASE("sharding inside a group, replication across groups", "[ranks]") {
  const TrainingSetting setting;
  const Run expected = setting.train({}, 20);
  for (int stage = 0; stage <= 3; ++stage) {
    for (const std::string shards : {"1", "2"}) {
      INFO("ZeRO-" << stage << " over " << shards);
      const Overrides layout{"batch.micro=1", "pipeline.loops=3", zero(stage), "parallel.zero_shard_ranks=" + shards};
      check_close(train_ranks(setting, 4, layout), expected, 1e-5, 1e-4);
    }
  }
}

TEST_CASE("bf16 on several ranks stays close to fp32", "[ranks]") {
  const TrainingSetting setting;
  const Run expected = setting.train({}, 6);
  const Overrides types = GENERATE(Overrides{"precision.compute=\"bf16\""},
                                   Overrides{"precision.compute=\"bf16\"", "precision.gradients=\"bf16\""});
  for (const int stage : {0, 3})
    check_close(train_ranks(setting, 2, types + Overrides{"batch.micro=2", zero(stage)}, 6), expected, 2e-2, 0.1);
}

TEST_CASE("ranks share an evaluation", "[ranks]") {
  const Overrides model{"model.tie_embeddings=true", "batch.micro=2", "pipeline.loops=3"};
  for (const int stage : {0, 3}) check_evaluation(TrainingSetting(), model, {4, {zero(stage)}});
}

TEST_CASE("any layout resumes from any checkpoint", "[ranks]") {
  const Overrides compute = GENERATE(Overrides{}, Overrides{"precision.compute=\"bf16\""});
  check_resumption(TrainingSetting(), compute, {4, {"batch.micro=1", "pipeline.loops=3", zero(3)}},
                   {{2, {"batch.micro=4", zero(1)}}, {8, {"batch.micro=1", zero(2)}}, {1, {}}},
                   compute.empty() ? 1e-5 : 1e-2);
}

TEST_CASE("a step sends the planned bytes and executes the schedule", "[ranks]") {
  const TrainingSetting setting;
  const std::string schedule = GENERATE("\"breadth_first\"", "\"interleaved\"");
  const int stage = GENERATE(0, 1, 2, 3);
  const std::string shards = GENERATE("2", "4");
  const Recipe recipe = setting.recipe({"batch.micro=1", "pipeline.loops=3", "pipeline.schedule=" + schedule,
                                        zero(stage), "parallel.zero_shard_ranks=" + shards, "launch.ranks=4"});
  const auto profile = load_profile("cpu", source_folder() / "recipes/clusters");
  const Plan plan = make_plan(recipe, profile, Timeline::leave_out);
  double planned = 0;
  for (const CommunicationEntry& entry : plan.report.communication)
    if (entry.purpose == Purpose::data_parallel) planned += entry.bytes_per_rank_per_step;
  REQUIRE(planned > 0);

  std::mutex mutex;
  LocalWorld(4).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    std::string executed;
    trainer.runner().set_observer([&](const Instruction& instruction) { executed += to_text(instruction) + "\n"; });
    communicator.log().reset_counts();
    trainer.step();
    double sent = 0;
    for (const CommunicationCount& count : communicator.log().counts())
      if (count.purpose == Purpose::data_parallel) sent += count.bytes;
    const std::lock_guard lock(mutex);
    CHECK(sent == planned);
    CHECK(executed == to_text(plan.layout->schedule().ranks.front()));
  });
}

TEST_CASE("a rank that throws ends the step of all ranks with its message", "[ranks]") {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe({"batch.micro=1", zero(2)});
  LocalWorld world(4);
  const auto work = [&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    trainer.step();
    if (communicator.rank() == 2) throw Error(ExitCode::bad_data, "tokens.bin: sample 7 is gone");
    trainer.step();
  };
  CHECK_THROWS_WITH(world.run(work), Catch::Contains("sample 7 is gone"));
}

}  // namespace llmtrain::test
