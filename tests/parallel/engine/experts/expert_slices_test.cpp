// SPDX-License-Identifier: Apache-2.0
// Experts whose states are cut finer than their products: the numbers of a run without that.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "parallel/engine/exchange_record.h"
#include "tests/parallel/engine/experts/expert_models.h"
#include "tests/parallel/engine/save_ranks.h"

namespace llmtrain::test {
namespace {

std::string slices(int ranks) { return "parallel.expert_slices=" + std::to_string(ranks); }

const Overrides by_layer{zero(3), "pipeline.loops=3"};

// The layouts without slices, and how many they get.
struct SlicedCase {
  int ranks = 0;
  int slices = 0;
  Overrides overrides;
};

std::vector<SlicedCase> sliced_cases() {
  return {{4, 4, dropless + by_layer},
          {4, 2, scored + Overrides{experts(2), "memory.recompute=\"computation\""} + by_layer},
          {8, 4, scored + Overrides{experts(2), sliced(2), "batch.global=16"} + by_layer},
          {4, 4, scored + Overrides{tensor(4), sliced(1)} + by_layer},
          {8, 4, dropping + Overrides{tensor(2), sliced(2), "parallel.zero_shard_ranks=2"} + by_layer},
          {8, 2, dropless + Overrides{experts(2), context(2), "parallel.expert_overlap=2"} + by_layer},
          {8, 2, scored + Overrides{"parallel.zero_shard_ranks=4", "batch.global=16"} + by_layer},
          {8, 4, dropping + Overrides{"parallel.pipeline=2", "pipeline.balance=[1,2]", zero(3)}},
          {4, 4, dropless + Overrides{"training.optimizer.name=\"muon\""} + by_layer},
          {4, 4, dropping + Overrides{"precision.fp8_level=\"O0\"", sliced(2)} + by_layer}};
}

// Trains a run that splits experts over so many ranks in one step after another.
Run train_switching(const TrainingSetting& setting, int ranks, const Overrides& overrides,
                    const std::vector<std::int64_t>& splits) {
  const Recipe recipe = setting.recipe(overrides + Overrides{"parallel.expert_tensor=\"auto\""});
  std::vector<SplitTrial> trials;
  for (const std::int64_t split : splits) trials.push_back({static_cast<std::int64_t>(trials.size()), split, 1});
  Run result;
  LocalWorld(ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    trainer.model().groups().mixture.split_tuner()->set_trials(trials);
    const Run run = TrainingSetting::train(trainer, static_cast<std::int64_t>(splits.size()));
    if (communicator.rank() == 0) result = run;
  });
  return result;
}

}  // namespace

TEST_CASE("steps that split experts in other ways than those before give the same numbers", "[ranks]") {
  const TrainingSetting setting;
  const std::vector<std::int64_t> by_tensor{2, 4, 1, 4, 2, 1}, by_data{4, 1, 2, 1, 4, 2};
  const Overrides four = by_layer + Overrides{slices(4)};
  for (const auto& [ranks, splits, layout] :
       {std::tuple{4, by_data, scored + four},
        {8, by_data, scored + Overrides{experts(2), "batch.global=16", "memory.recompute=\"computation\""} + four},
        {4, by_tensor, dropping + Overrides{tensor(2), "training.optimizer.name=\"muon\""} + four},
        {8, by_data, dropless + Overrides{context(2), "parallel.expert_overlap=\"auto\"", experts(1)} + four},
        {8, by_data, dropping + Overrides{"parallel.pipeline=2", "pipeline.balance=[1,2]", slices(4), zero(3)}},
        {4, by_tensor, dropping + Overrides{tensor(4), "parallel.sequence=false"} + four},
        {4, by_data, dropping + Overrides{"precision.fp8_level=\"O0\""} + four}}) {
    INFO(in_words(ranks, layout));
    const Run expected = train_ranks(setting, ranks, layout, 6);
    check_close(train_switching(setting, ranks, layout, splits), expected, 1e-5, 1e-4);
  }
}

// Three ranks cannot split four slices.
std::string with_unknown_split(const std::string& record) {
  auto json = nlohmann::json::parse(record);
  json.at("split_trials").at(0).at("expert_tensor") = 3;
  return json.dump();
}

TEST_CASE("with the record of a run a resumed one repeats its splits bit by bit", "[ranks]") {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe(scored + by_layer +
                                       Overrides{slices(4), "parallel.expert_tensor=\"auto\"", experts(2),
                                                 "batch.global=16", "parallel.expert_overlap=\"auto\""});
  const TemporaryDirectory folder;
  Run whole, repeated;
  std::string record;
  LocalWorld(8).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    TrainingSetting::train(trainer, 2);
    save(trainer, folder.path());
    const Run rest = TrainingSetting::train(trainer, 6);
    if (communicator.rank() > 0) return;
    whole = rest;
    record = exchange_record(trainer.model());
    // Two turns of three splits at least.
    CHECK(trainer.model().groups().mixture.split_tuner()->trials().size() >= 6);
  });
  LocalWorld(8).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    trainer.resume(CheckpointReader(folder.path() / "step-00000002"));
    CHECK_FALSE(use_exchange_record(trainer.model(), with_unknown_split(record)));
    const bool is_used = use_exchange_record(trainer.model(), record);
    const Run rest = TrainingSetting::train(trainer, 6);
    if (communicator.rank() > 0) return;
    CHECK(is_used);
    repeated = rest;
  });
  check_equal(repeated, whole);
}

TEST_CASE("experts that are stored in finer slices train as those that are not", "[ranks]") {
  const TrainingSetting setting;
  for (const SlicedCase& layout : sliced_cases()) {
    INFO(in_words(layout.ranks, layout.overrides) << ", " << layout.slices << " slices");
    const Run whole = train_ranks(setting, layout.ranks, layout.overrides, 4);
    check_close(train_ranks(setting, layout.ranks, layout.overrides + Overrides{slices(layout.slices)}, 4), whole, 1e-6,
                1e-5);
  }
}

TEST_CASE("a run goes on with other slices of its experts", "[ranks]") {
  const TrainingSetting setting;
  const RankCase fine{4, scored + Overrides{slices(4)} + by_layer},
      coarse{4, scored + Overrides{experts(2)} + by_layer};
  const Run whole = train_ranks(setting, 4, coarse.overrides, 5);
  const std::vector<double> rest(whole.losses.begin() + 3, whole.losses.end());
  for (const auto& [before, after] : {std::pair{fine, coarse}, {coarse, fine}}) {
    const TemporaryDirectory folder;
    train_and_save(setting, before, 3, folder.path());
    const std::vector<double> losses =
        resumed_losses(setting, after, folder.path() / "step-00000003", static_cast<std::int64_t>(rest.size()));
    for (std::size_t i = 0; i < rest.size(); ++i) CHECK(losses[i] == Approx(rest[i]).epsilon(1e-5));
  }
}

}  // namespace llmtrain::test
