// SPDX-License-Identifier: Apache-2.0
// Steps of shorter sequences, on any layout and after a resume.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

constexpr int steps = 6;

Overrides lengths(const std::string& method) {
  return {"model.layers=4", "batch.micro=2",
          R"(data.curriculum.sequence_length={"start": 8, "steps": 5, "multiple": 4, "method": ")" + method + "\"}",
          R"(training.learning_rate.clock="tokens")"};
}

std::string method() { return GENERATE(std::string("truncate"), std::string("reshape")); }

}  // namespace

// What the first tokens of a sequence compute does not depend on the later ones: the mean loss of sequences that are
// cut is that of shorter samples, which a run of such samples from the same positions has.
TEST_CASE("cut sequences have the losses of their tokens alone", "[curriculum]") {
  const TrainingSetting setting;
  const Overrides none{"training.learning_rate.peak=0", "data.shuffle=false", "batch.micro=2"};
  const Overrides cut =
      none + Overrides{R"(data.curriculum.sequence_length={"start": 12, "steps": 9, "multiple": 12})"};
  const Overrides reshaped =
      none +
      Overrides{R"(data.curriculum.sequence_length={"start": 12, "steps": 9, "multiple": 12, "method": "reshape"})"};
  // Sixteen samples of 12 tokens are eight of 24.
  const Overrides halves = none + Overrides{"batch.sequence_length=12", "batch.global=16"};
  const Run of_halves = setting.train(halves, 1), of_reshaped = setting.train(reshaped, 1);
  CHECK(of_reshaped.losses[0] == Approx(of_halves.losses[0]).epsilon(1e-6));
  CHECK(of_reshaped.norms[0] == Approx(of_halves.norms[0]).epsilon(1e-5));
  // Truncated: the first half of each sample, of which the other halves are the rest of the mean.
  LoneTrainer trainer(setting.recipe(cut));
  TrainingSetting::train(trainer, 1);
  CHECK(trainer.tokens_trained() == 8 * 12);
  CHECK(trainer.samples_consumed() == 8);
}

TEST_CASE("a curriculum's losses do not depend on the layout", "[ranks]") {
  const TrainingSetting setting;
  const std::vector<RankCase> cases{
      {2, {"parallel.tensor=2"}},
      {2, {"parallel.tensor=2", "parallel.sequence=false", "memory.recompute=\"selective\""}},
      {2, {"parallel.context=2"}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\"", "memory.recompute=\"full\""}},
      {4, {zero(3), "pipeline.loops=4"}},
      {8, {"parallel.tensor=2", "parallel.pipeline=2", zero(2), "pipeline.loops=2"}},
  };
  for (const Overrides& model : {Overrides{}, Overrides{"model.architecture=gpt2", "model.dropout=0.1"}}) {
    const Overrides all = lengths(method()) + model;
    const Run expected = setting.train(all, steps);
    for (const RankCase& each : cases) {
      INFO(in_words(each.ranks, each.overrides));
      if (!model.empty() && each.overrides.front() == "parallel.context=2") continue;
      check_close(train_ranks(setting, each.ranks, all + each.overrides, steps), expected, 1e-5, 1e-4);
    }
  }
}

TEST_CASE("a curriculum's experts learn on expert ranks what they learn on one", "[ranks]") {
  const TrainingSetting setting;
  const Overrides all = lengths(method()) + Overrides{R"(model.moe={"experts": 4, "top_k": 2, "ffn_hidden_size": 24})"};
  const Run expected = setting.train(all, steps);
  check_close(train_ranks(setting, 2, all + Overrides{"parallel.expert=2", zero(3)}, steps), expected, 1e-5, 1e-4);
  check_close(train_ranks(setting, 2, all + Overrides{"parallel.tensor=2"}, steps), expected, 1e-5, 1e-4);
}

// Begins with the 2 easiest of 249 samples.
Overrides rarity() {
  return {"model.layers=4", "batch.micro=2",
          R"(data.curriculum.vocabulary_rarity={"start": 1, "steps": 5, "degree": 2})"};
}

TEST_CASE("easiest samples are the same on any layout, and kept for all ranks", "[ranks]") {
  const TrainingSetting setting;
  const Run expected = setting.train(rarity(), steps);
  CHECK(expected.losses != setting.train({"model.layers=4", "batch.micro=2"}, steps).losses);
  check_close(train_ranks(setting, 2, rarity() + Overrides{zero(3), "pipeline.loops=4"}, steps), expected, 1e-5, 1e-4);

  const Overrides both = rarity() + lengths("reshape");
  const Run of_both = setting.train(both, steps);
  const Recipe recipe = setting.recipe(both + Overrides{"parallel.tensor=2"});
  const auto cache = setting.directory().path() / "data-cache";
  for (int run = 0; run < 2; ++run) {
    std::vector<Run> runs(2);
    LocalWorld world(2);
    world.run([&](Communicator& communicator) {
      Trainer trainer(layout_of(recipe, 2), communicator, at::kCPU,
                      shared_data_cache(communicator, cache, [] { return false; }));
      runs[static_cast<std::size_t>(communicator.rank())] = TrainingSetting::train(trainer, steps);
    });
    check_equal(runs[0], runs[1]);
    check_close(runs[0], of_both, 1e-5, 1e-4);
  }
  CHECK(names_in(cache) == std::set<std::string>{"vocabulary-rarity-0"});
}

TEST_CASE("a run resumes among the easiest samples where it was", "[trainer]") {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe(rarity());
  LoneTrainer whole(recipe);
  const Run expected = TrainingSetting::train(whole, steps);
  const auto resumed = resumed_after(3, recipe, setting.directory().path() / "checkpoints");
  CHECK(TrainingSetting::train(*resumed, steps - 3).losses ==
        std::vector<double>(expected.losses.begin() + 3, expected.losses.end()));
  CHECK(resumed->last_percent() == 100);
}

TEST_CASE("a resumed curriculum goes on bitwise where it was, with its tokens counted", "[trainer]") {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe(lengths(method()));
  LoneTrainer whole(recipe);
  const Run expected = TrainingSetting::train(whole, steps);
  const auto resumed = resumed_after(3, recipe, setting.directory().path() / "checkpoints");
  const Run rest = TrainingSetting::train(*resumed, steps - 3);
  CHECK(rest.losses == std::vector<double>(expected.losses.begin() + 3, expected.losses.end()));
  CHECK(resumed->tokens_trained() == whole.tokens_trained());
  CHECK(resumed->tokens_trained() < steps * 8 * 24);
}

}  // namespace llmtrain::test
