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

// Of the feed-forward network's first product in the last layer.
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

}  // namespace

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
