// SPDX-License-Identifier: Apache-2.0
// Models with experts on several ranks: their steps, checkpoints, exchanges and evaluations, and the memory of many
// steps.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "parallel/engine/exchange_record.h"
#include "parallel/run/metrics_log.h"
#include "tests/parallel/engine/experts/expert_models.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"
#include "tests/support/resident_memory.h"

namespace llmtrain::test {
namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("ranks that share the tokens of a micro-batch learn, drop and balance as one rank", "[ranks]") {
  const TrainingSetting setting;
  LoneTrainer one(setting.recipe(scored));
  std::vector<StepResult> expected;
  for (int step = 0; step < 6; ++step) expected.push_back(one.step());
  for (const StepResult& result : expected) CHECK(result.routing.dropped_share > 0.1 * result.routing.passes);
  for (const RankCase& layout : shared_micro_batches()) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Recipe recipe = setting.recipe(scored + layout.overrides);
    std::vector<StepResult> results(expected.size());
    LocalWorld(layout.ranks).run([&](Communicator& communicator) {
      Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
      for (StepResult& result : results) {
        const StepResult step = trainer.step();
        if (communicator.rank() == 0) result = step;
      }
    });
    for (std::size_t i = 0; i < results.size(); ++i) check_same_step(results[i], expected[i]);
  }
}

TEST_CASE("ranks learn as one rank by cosine routers, whose places go to the highest scores", "[ranks]") {
  const TrainingSetting setting;
  const Overrides fast = cosine + Overrides{R"(training.learning_rate={"peak": 0.003, "warmup_steps": 0})"};
  const std::vector<StepResult> expected = steps_of(setting.recipe(fast), 1, 4)[0];
  for (const StepResult& result : expected) CHECK(result.routing.dropped_share > 0.1 * result.routing.passes);
  for (const RankCase& layout :
       {RankCase{4, {experts(4), zero(2)}}, RankCase{4, {tensor(2), context(2), sliced(1), experts(4)}},
        RankCase{8, {tensor(2), experts(2), zero(3), "parallel.pipeline=2", "pipeline.balance=[1,2]"}}}) {
    INFO(in_words(layout.ranks, layout.overrides));
    const auto results = steps_of(setting.recipe(fast + layout.overrides), layout.ranks, 4);
    for (std::size_t step = 0; step < expected.size(); ++step) check_same_step(results[0][step], expected[step]);
  }
}

TEST_CASE("ranks count the tokens of each expert together, and a replay of the counts repeats them", "[ranks]") {
  const TrainingSetting setting;
  const Overrides counted = scored + Overrides{"log.routing=true", "model.moe.every=2"};
  const auto expected = steps_of(setting.recipe(counted), 1, 3)[0];
  const std::string file = (setting.directory().path() / "routing.jsonl").string();
  {
    MetricsLog log(setting.directory().path(), {.directory = "", .tensorboard = false, .routing = true}, 0);
    for (std::size_t step = 0; step < 3; ++step)
      log.write_routing(static_cast<std::int64_t>(step) + 1, expected[step].chosen);
  }
  const Overrides replaying = counted + Overrides{"model.moe.routing_trace=\"" + file + "\"", "seed=5"};
  const auto replayed = steps_of(setting.recipe(replaying), 1, 4)[0];
  for (std::size_t step = 0; step < 4; ++step) {
    CHECK(replayed[step].chosen == expected[step % 3].chosen);
    CHECK(replayed[step].loss != expected[step % 3].loss);
  }
  for (const RankCase& layout :
       {RankCase{4, {experts(2), "parallel.pipeline=2", "pipeline.balance=[1,2]"}},
        RankCase{4, {tensor(2), context(2)}}, RankCase{4, {tensor(2), experts(2), "memory.recompute=\"full\""}}}) {
    INFO(in_words(layout.ranks, layout.overrides));
    for (const auto& results : steps_of(setting.recipe(counted + layout.overrides), layout.ranks, 1))
      CHECK(results[0].chosen == expected[0].chosen);
    for (const auto& results : steps_of(setting.recipe(replaying + layout.overrides), layout.ranks, 2))
      for (std::size_t step = 0; step < 2; ++step) {
        CHECK(results[step].chosen == replayed[step].chosen);
        check_same_step(results[step], replayed[step]);
      }
  }
}

TEST_CASE("a model with experts resumes bitwise, and on other ranks to rounding", "[ranks]") {
  const TrainingSetting setting;
  const Overrides split{experts(2), zero(3), "pipeline.loops=3"};
  const Overrides parts_of_experts{tensor(4), sliced(2), zero(1)};
  for (const auto& [model, layout] : {std::pair{dropless, split}, {dropping, split}, {dropping, parts_of_experts}}) {
    const RankCase four{4, model + layout};
    const Run whole = train_ranks(setting, four.ranks, four.overrides, 6);
    const TemporaryDirectory folder;
    train_and_save(setting, four, 4, folder.path());
    const fs::path checkpoint = folder.path() / "step-00000004";
    const std::vector<double> rest(whole.losses.begin() + 4, whole.losses.end());
    CHECK(resumed_losses(setting, four, checkpoint, 2) == rest);
    const std::vector<RankCase> others{{1, model},
                                       {8, model + Overrides{experts(8), zero(1)}},
                                       {2, model + Overrides{zero(2)}},
                                       {4, model + Overrides{tensor(4), sliced(2)}},
                                       {4, model + Overrides{experts(2), sliced(2), zero(3), "pipeline.loops=3"}},
                                       {8, model + Overrides{tensor(2), context(2), sliced(1), experts(4), zero(3)}}};
    for (const RankCase& other : others) {
      const std::vector<double> losses = resumed_losses(setting, other, checkpoint, 2);
      for (std::size_t i = 0; i < rest.size(); ++i) CHECK(losses[i] == Approx(rest[i]).epsilon(1e-5));
    }
  }
}

// Products of few rows sum in another order than those of many, and a weight's gradient sums up its rows by parts.
TEST_CASE("rows in parts train to rounding as they do together", "[ranks]") {
  const TrainingSetting setting;
  for (const Overrides& layout :
       {Overrides{experts(2)}, Overrides{experts(2), tensor(2), "parallel.sequence=false", zero(1)}}) {
    const Run whole = train_ranks(setting, 4, dropping + layout, 4);
    for (const int number : {2, 4, 8}) {
      INFO(in_words(4, layout) << ", " << number << " parts");
      const Run run = train_ranks(setting, 4, dropping + layout + Overrides{parts(number)}, 4);
      CHECK(run.losses.front() == Approx(whole.losses.front()).epsilon(1e-8));
      check_close(run, whole, 1e-6, 1e-5);
    }
  }
}

// Only the way of the rows differs.
TEST_CASE("a hierarchical exchange gives the bits of a linear one", "[ranks]") {
  const TrainingSetting setting;
  for (const auto& [nodes, layout] : {std::pair{two_nodes(2), Overrides{experts(4), zero(1)}},
                                      {two_nodes(4), Overrides{experts(8), parts(2)}},
                                      {two_nodes(4), Overrides{experts(4), tensor(2), "memory.recompute=\"full\""}},
                                      {two_nodes(4), Overrides{experts(8), sliced(1), tensor(2), context(2)}}}) {
    const int ranks = nodes == two_nodes(2) ? 4 : 8;
    INFO(in_words(ranks, layout + nodes));
    const Overrides skewed = dropping + layout + Overrides{"batch.global=8"};
    check_equal(train_ranks(setting, ranks, skewed + nodes, 4), train_ranks(setting, ranks, skewed, 4));
  }
}

// An exchange that is chosen anew in each of the first steps: all ranks agree on it, and numbers are those of any.
TEST_CASE("what a run chooses changes the numbers by rounding alone", "[ranks]") {
  const TrainingSetting setting;
  const Overrides open{"parallel.expert_overlap=\"auto\"", "parallel.expert_all_to_all=\"auto\""};
  const Overrides nodes{"cluster.nodes=2", "cluster.devices_per_node=4", "batch.global=8"};
  for (const auto& [ranks, layout] :
       {std::pair{4, Overrides{experts(2), zero(1), "memory.recompute=\"full\""}},
        {8, Overrides{experts(8), zero(3), "pipeline.loops=3"} + nodes},
        {8, Overrides{experts(4), sliced(2)} + nodes},
        {8, Overrides{experts(4), tensor(2), "memory.recompute=\"computation\""} + nodes},
        {8, Overrides{experts(4), "parallel.pipeline=2", "pipeline.balance=[1,2]"} + nodes}}) {
    INFO(in_words(ranks, layout));
    const std::int64_t steps = 8;  // each method once
    check_close(train_ranks(setting, ranks, dropping + layout + open, steps),
                train_ranks(setting, ranks, dropping + layout, steps), 1e-5, 1e-4);
  }
}

// Also in the steps in which exchanges are tried, whose times differ from run to run.
TEST_CASE("with the record of a run a resumed one repeats its exchanges bit by bit", "[ranks]") {
  const TrainingSetting setting;
  const Overrides open{experts(4), "parallel.expert_overlap=\"auto\"", zero(1)};
  const Recipe recipe = setting.recipe(dropless + open);
  const TemporaryDirectory folder;
  std::vector<double> losses, repeated;
  std::string record;
  LocalWorld(4).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    TrainingSetting::train(trainer, 3);
    save(trainer, folder.path());
    const Run rest = TrainingSetting::train(trainer, 9);
    if (communicator.rank() > 0) return;
    losses = rest.losses;
    record = exchange_record(trainer.model());
    // Two turns of four methods at least.
    CHECK(trainer.model().groups().mixture.tuner()->trials().size() >= 8);
  });
  LocalWorld(4).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    trainer.resume(CheckpointReader(folder.path() / "step-00000003"));
    const bool is_used = use_exchange_record(trainer.model(), record);
    const Run rest = TrainingSetting::train(trainer, 9);
    if (communicator.rank() > 0) return;
    CHECK(is_used);
    repeated = rest.losses;
    CHECK_FALSE(use_exchange_record(trainer.model(), "{}"));
    CHECK_FALSE(use_exchange_record(trainer.model(), "{"));
    CHECK(exchange_record(trainer.model()) == record);
  });
  CHECK(repeated == losses);
  // What a device costs says nothing of its time.
  const Recipe priced = setting.recipe(dropless + open + Overrides{"cluster.price_per_device_hour=2.5"});
  LocalWorld(4).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(priced, communicator.size()), communicator, at::kCPU);
    const bool is_used = use_exchange_record(trainer.model(), record);
    if (communicator.rank() == 0) CHECK(is_used);
  });
  const Recipe other = setting.recipe(dropless + open + Overrides{"batch.micro=2"});
  LocalWorld(4).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(other, communicator.size()), communicator, at::kCPU);
    const bool is_used = use_exchange_record(trainer.model(), record);
    if (communicator.rank() == 0) CHECK_FALSE(is_used);
  });
}

// Five samples for four ranks, each of which passes through all experts' ranks.
TEST_CASE("ranks that share experts evaluate what one rank evaluates, also without samples of their own", "[ranks]") {
  for (const Overrides& layout :
       {Overrides{experts(4)}, Overrides{experts(2), zero(3), "pipeline.loops=3"}, Overrides{sliced(2), zero(1)}})
    check_evaluation(TrainingSetting(), dropless + Overrides{"batch.micro=2"}, {4, layout});
}

TEST_CASE("ranks whose experts have no places train on", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model =
      dropping + Overrides{R"(model.moe={"experts": 8, "top_k": 2, "ffn_hidden_size": 20, "capacity_factor": 0.1})"};
  const Run one = setting.train(model, 3);
  for (const double loss : one.losses) CHECK(std::isfinite(loss));
  check_close(train_ranks(setting, 4, model + Overrides{experts(4), zero(2)}, 3), one, 1e-5, 1e-4);
}

// Every step routes other numbers of tokens to the experts.
TEST_CASE("many steps of a model with experts take no more memory than a few") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(dropless));
  TrainingSetting::train(trainer, 30);
  const double before = resident_megabytes();
  TrainingSetting::train(trainer, 150);
  CHECK(resident_megabytes() - before < 4);
}

}  // namespace llmtrain::test
