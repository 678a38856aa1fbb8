// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/trainer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/training_setting.h"

namespace llmtrain::test {
namespace {

using Setting = test::TrainingSetting;

}  // namespace

TEST_CASE("the same recipe gives bitwise identical losses", "[trainer]") {
  const Setting setting;
  for (const std::string compute : {"fp32", "bf16"}) {
    const std::vector<std::string> overrides{"precision.compute=\"" + compute + "\""};
    check_equal(setting.train(overrides), setting.train(overrides));
  }
}

TEST_CASE("the first loss is that of a uniform guess", "[trainer]") {
  const Setting setting;
  // Small weights: nearly uniform over the 256 bytes.
  CHECK(setting.train({}, 1).losses.front() == Approx(std::log(256.0)).epsilon(0.01));
}

TEST_CASE("training lowers the loss", "[trainer]") {
  const Setting setting;
  const Run run = setting.train({"training.learning_rate.peak=0.01"}, 20);
  CHECK(run.losses.back() < run.losses.front() - 2);
}

TEST_CASE("losses do not depend on micro-batches, stages, schedule or recompute", "[trainer]") {
  const Setting setting;
  const std::string dropout = GENERATE("0", "0.2");
  const std::string set_dropout = "model.dropout=" + dropout;
  const Run expected = setting.train({set_dropout});
  const std::vector<std::vector<std::string>> layouts{
      {"batch.micro=1"},
      {"batch.micro=4", "pipeline.loops=3", "pipeline.schedule=\"breadth_first\""},
      {"batch.micro=2", "pipeline.loops=3", "pipeline.schedule=\"interleaved\""},
      {"batch.micro=4", "pipeline.loops=3", "pipeline.schedule=\"gpipe\""},
      {"batch.micro=4", "pipeline.loops=3", "pipeline.schedule=\"1f1b\""},
      {"pipeline.loops=2", "pipeline.balance=[1,2]", "memory.recompute=\"selective\""},
      {"pipeline.loops=5", "pipeline.balance=\"blocks\"", "memory.recompute=\"full\"", "batch.micro=2"},
  };
  for (std::vector<std::string> layout : layouts) {
    INFO(layout.front());
    layout.push_back(set_dropout);
    // Sums in a different order: fp32 rounding.
    check_close(setting.train(layout), expected, 1e-5, 1e-4);
  }
}

TEST_CASE("recompute changes no bit", "[trainer]") {
  const Setting setting;
  const std::string set_dropout = GENERATE("model.dropout=0", "model.dropout=0.1");
  const Run expected = setting.train({set_dropout});
  check_equal(setting.train({set_dropout, "memory.recompute=\"selective\""}), expected);
  check_equal(setting.train({set_dropout, "memory.recompute=\"full\""}), expected);
}

TEST_CASE("tied embeddings on different stages are one parameter", "[trainer]") {
  const Setting setting;
  const std::vector<std::string> tied{"model.tie_embeddings=true"};
  check_close(setting.train({"model.tie_embeddings=true", "pipeline.loops=3", "batch.micro=2"}), setting.train(tied),
              1e-5, 1e-4);
}

TEST_CASE("bf16 stays close to fp32", "[trainer]") {
  const Setting setting;
  const Run expected = setting.train({});
  check_close(setting.train({"precision.compute=\"bf16\""}), expected, 2e-2, 0.1);
  check_close(setting.train({"precision.compute=\"bf16\"", "precision.gradients=\"bf16\"", "batch.micro=4"}), expected,
              2e-2, 0.1);
}

TEST_CASE("a resumed run is bitwise identical to an uninterrupted one", "[trainer]") {
  const Setting setting;
  const std::string compute = GENERATE("precision.compute=\"fp32\"", "precision.compute=\"bf16\"");
  const std::vector<std::string> overrides{compute, "model.dropout=0.1"};
  const Run whole = setting.train(overrides, 8);

  const auto folder = setting.directory().path() / "checkpoints";
  const auto second = resumed_after(5, setting.recipe(overrides), folder);
  CHECK(second->steps_done() == 5);
  const Run rest = Setting::train(*second, 3);
  CHECK(rest.losses == std::vector<double>(whole.losses.begin() + 5, whole.losses.end()));

  // Another layout reads the same checkpoint; then numbers agree up to bf16's rounding.
  LoneTrainer other(setting.recipe({compute, "model.dropout=0.1", "pipeline.loops=3", "batch.micro=2"}));
  other.resume(CheckpointReader(folder / "step-00000005"));
  CHECK(Setting::train(other, 1).losses.front() == Approx(whole.losses[5]).epsilon(1e-2));
}

TEST_CASE("a gradient that is not finite leaves the weights unchanged", "[trainer]") {
  const Setting setting;
  LoneTrainer trainer(setting.recipe({}));
  const at::Tensor weights = trainer.model().units().front()->parameters->source();
  // One element of the embedding of "l", which is frequent in the text.
  weights.data_ptr<float>()[static_cast<std::size_t>('l') * 32] = std::nanf("");
  const at::Tensor before = weights.nan_to_num(7.0);
  CHECK(trainer.step().skipped);
  CHECK(weights.nan_to_num(7.0).equal(before));
}

TEST_CASE("evaluation uses no dropout and changes nothing", "[trainer]") {
  const Setting setting;
  LoneTrainer trainer(setting.recipe({"model.dropout=0.5"}));
  const double first = trainer.evaluate();
  CHECK(trainer.evaluate() == first);
  LoneTrainer plain(setting.recipe({"model.dropout=0"}));
  // Flash and math attention sum in different orders.
  CHECK(plain.evaluate() == Approx(first).epsilon(1e-5));
}

TEST_CASE("an evaluation that is stopped is due, also for who resumes, until it is done or a step follows",
          "[trainer]") {
  const Setting setting;
  const Recipe recipe = setting.recipe({});
  LoneTrainer trainer(recipe);
  trainer.step();
  CHECK_FALSE(trainer.evaluation_is_due());
  const double whole = trainer.evaluate();
  std::vector<double> shares;
  CHECK_FALSE(trainer.evaluate([&](double share) {
    shares.push_back(share);
    return share > 0;
  }));
  REQUIRE(shares.size() == 2);
  CHECK(shares.front() == 0);
  CHECK(shares.back() > 0);
  CHECK(shares.back() < 1);
  CHECK(trainer.evaluation_is_due());

  const auto folder = setting.directory().path() / "checkpoints";
  save(trainer, folder);
  LoneTrainer resumed(recipe);
  resumed.resume(CheckpointReader(folder / "step-00000001"));
  CHECK(resumed.evaluation_is_due());
  CHECK(resumed.evaluate([](double) { return false; })->loss == whole);
  CHECK_FALSE(resumed.evaluation_is_due());
  trainer.step();
  CHECK_FALSE(trainer.evaluation_is_due());
}

}  // namespace llmtrain::test
