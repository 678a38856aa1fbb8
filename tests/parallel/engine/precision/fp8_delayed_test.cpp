// SPDX-License-Identifier: Apache-2.0
// Delayed scales of FP8 products: in any layout and after any interruption those of one rank that never stopped.
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

namespace fs = std::filesystem;

const Overrides delayed_scales{"precision.fp8_scaling.method=\"delayed\"", "precision.fp8_scaling.history_steps=4"};

struct LayoutTolerance {
  double first_loss, loss, norm;
};

void check_delayed(const Overrides& common, const std::vector<RankCase>& layouts, const LayoutTolerance& tolerance) {
  const TrainingSetting setting;
  const Run expected = setting.train(common, 20);
  REQUIRE(expected.losses.back() < 0.97 * expected.losses.front());
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Run run = train_ranks(setting, layout.ranks, common + layout.overrides);
    CHECK(run.losses.front() == Approx(expected.losses.front()).epsilon(tolerance.first_loss));
    check_close(run, expected, tolerance.loss, tolerance.norm);
  }
}

// What the first product of the last layer's feed-forward network remembers.
const std::string last_history = "layers.2.ffn.gate.weight.amax_history";

std::vector<float> history_of(const fs::path& checkpoint) {
  const CheckpointReader reader(checkpoint);
  std::vector<float> maxima(12);
  REQUIRE(reader.find(last_history) != nullptr);
  REQUIRE(reader.find(last_history)->shape == std::vector<std::int64_t>{4, 3});
  reader.read_box(last_history, {{0, 0}, {4, 3}}, std::as_writable_bytes(std::span(maxima)));
  return maxima;
}

// What the first rank reports of steps after it has gone on from a checkpoint, which it saves again before them.
Run resumed(const TrainingSetting& setting, const RankCase& layout, const fs::path& from, const fs::path& again,
            std::int64_t steps) {
  const Recipe recipe = setting.recipe(layout.overrides);
  Run run;
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, layout.ranks), communicator, at::kCPU);
    trainer.resume(CheckpointReader(from));
    test::save(trainer, again);
    const Run own = TrainingSetting::train(trainer, steps);
    if (communicator.rank() == 0) run = own;
  });
  return run;
}

// A product whose history is always far behind: every step of it overflows.
constexpr std::size_t layers_product = 6;  // the third of the second layer: gate and up

struct Fallen {
  Run run;
  Run later;                          // after what was saved
  std::vector<std::size_t> products;  // that left FP8, by step
  std::vector<std::int64_t> steps;
};

// What each rank sees in eight steps, which must be the same, and in two steps after these are saved.
Fallen fall_back(const TrainingSetting& setting, const RankCase& layout, const fs::path& checkpoints) {
  const Recipe recipe = setting.recipe(layout.overrides);
  std::vector<Fallen> seen(static_cast<std::size_t>(layout.ranks));
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, layout.ranks), communicator, at::kCPU);
    Fallen& own = seen[static_cast<std::size_t>(communicator.rank())];
    for (std::int64_t step = 0; step < 8; ++step) {
      Fp8History& history = *trainer.model().fp8_history();
      const auto fallback = history.state(layers_product).fallback;
      if (step > 0 && fallback[1] == 0)
        history.set_state(layers_product, {{1e-3F, 1e-3F, 1e-9F}, {fallback[0], fallback[1]}});
      const StepResult result = trainer.step();
      own.run.losses.push_back(result.loss);
      own.run.norms.push_back(result.gradient_norm);
      for (const Fp8History::Fallback& left : result.fallbacks) {
        own.products.push_back(left.product);
        own.steps.push_back(step);
      }
    }
    test::save(trainer, checkpoints);
    own.later = TrainingSetting::train(trainer, 2);
  });
  for (const Fallen& each : seen) {
    check_equal(each.run, seen.front().run);
    check_equal(each.later, seen.front().later);
    CHECK(each.products == seen.front().products);
    CHECK(each.steps == seen.front().steps);
  }
  return seen.front();
}

}  // namespace

TEST_CASE("a layer that overflows in several steps in a row leaves FP8 on all ranks, for good", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model = delayed_scales + Overrides{"precision.fp8_level=\"O0\"", "batch.micro=2",
                                                     "precision.high_precision.fallback_steps=3"};
  const fs::path folder = setting.directory().path() / "alone";
  const Fallen alone = fall_back(setting, {1, model}, folder);
  REQUIRE(alone.products.size() == 1);
  CHECK(alone.steps == std::vector<std::int64_t>{3});
  for (const RankCase& layout : std::vector<RankCase>{
           {2, {"parallel.tensor=2", "memory.recompute=\"full\""}},
           {4, {"parallel.pipeline=2", "pipeline.balance=[1,2]", "pipeline.schedule=\"1f1b\"", zero(1)}}}) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Fallen found = fall_back(setting, {layout.ranks, model + layout.overrides}, setting.directory().path() / "x");
    CHECK(found.products == alone.products);
    CHECK(found.steps == alone.steps);
    check_close(found.run, alone.run, 1e-4, 5e-3);
    fs::remove_all(setting.directory().path() / "x");
  }
  LoneTrainer trainer(setting.recipe(model));
  CHECK_FALSE(trainer.model().fp8_history()->has_fallen_back(alone.products.front()));
  trainer.resume(CheckpointReader(folder / "step-00000008"));
  CHECK(trainer.model().fp8_history()->has_fallen_back(alone.products.front()));
}

// At levels above O0 its weights' gradients leave, too, on the ranks that own parts of them at any ZeRO stage. Those of
// the other layers are rounded once for each rank.
TEST_CASE("gradients leave FP8 with their layer in any layout, and a run goes on so", "[ranks]") {
  const TrainingSetting setting;
  const fs::path folder = setting.directory().path();
  for (const char* level : {"O1", "O2"}) {
    const Overrides model = delayed_scales + Overrides{std::string("precision.fp8_level=\"") + level + "\"",
                                                       "batch.micro=2", "precision.high_precision.fallback_steps=3"};
    const Fallen alone = fall_back(setting, {1, model}, folder / level);
    REQUIRE(alone.products.size() == 1);
    for (const RankCase& layout : std::vector<RankCase>{{2, {zero(3)}}, {4, {"parallel.tensor=2", zero(1)}}}) {
      INFO(level << ", " << in_words(layout.ranks, layout.overrides));
      const RankCase whole{layout.ranks, model + layout.overrides};
      const fs::path saved = folder / "saved", again = folder / "again";
      const Fallen found = fall_back(setting, whole, saved);
      CHECK(found.products == alone.products);
      check_close(found.run, alone.run, 1e-3, 2e-2);
      check_equal(resumed(setting, whole, saved / "step-00000008", again, 2), found.later);
      for (const fs::path& used : {saved, again}) fs::remove_all(used);
    }
  }
}

// Maxima are of a step's whole tensors, so that micro-batches of any size have the same scales, too.
TEST_CASE("delayed scales are the same in any layout", "[ranks]") {
  const Overrides common = delayed_scales + Overrides{"precision.fp8_level=\"O0\"", "precision.fp8_scaling.margin=1"};
  check_delayed(common + Overrides{"batch.micro=2"},
                {{1, {"pipeline.loops=3", "memory.recompute=\"full\""}},
                 {4, {zero(3), "pipeline.loops=3"}},
                 {2, {"parallel.pipeline=2", "pipeline.balance=[1,2]", "pipeline.schedule=\"1f1b\""}}},
                {1e-7, 1e-5, 1e-4});
  // Sums over ranks round differently, which moves a number over the middle between two FP8 numbers now and then.
  check_delayed(common + Overrides{"batch.micro=2"},
                {{2, {"parallel.tensor=2", "memory.recompute=\"selective\""}},
                 {4, {"parallel.context=2", "parallel.tensor=2", "parallel.sequence=false"}},
                 {8, {"parallel.tensor=2", "parallel.pipeline=2", "pipeline.balance=[1,2]", zero(3)}}},
                {1e-6, 1e-4, 2e-3});
}

TEST_CASE("a run with delayed scales goes on with its histories, in any layout", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model =
      delayed_scales + Overrides{"precision.fp8_level=\"O3\"", "precision.compute=\"bf16\"", "batch.micro=1"};
  const RankCase layout{4, model + Overrides{zero(1), "parallel.pipeline=2", "pipeline.balance=[1,2]"}};
  const Recipe recipe = setting.recipe(layout.overrides);
  const fs::path folder = setting.directory().path() / "run";
  Run later;
  LocalWorld(4).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, 4), communicator, at::kCPU);
    TrainingSetting::train(trainer, 5);
    test::save(trainer, folder);
    const Run own = TrainingSetting::train(trainer, 5);
    if (communicator.rank() == 0) later = own;
  });
  const fs::path stored = folder / "step-00000005";
  const std::vector<float> maxima = history_of(stored);
  const fs::path again = setting.directory().path() / "again", tensor = setting.directory().path() / "tensor";
  check_equal(resumed(setting, layout, stored, again, 5), later);
  CHECK(history_of(again / "step-00000005") == maxima);
  const Run other = resumed(setting, {2, model + Overrides{"parallel.tensor=2"}}, stored, tensor, 1);
  CHECK(history_of(tensor / "step-00000005") == maxima);
  CHECK(other.losses.front() == Approx(later.losses.front()).epsilon(1e-3));
}

}  // namespace llmtrain::test
