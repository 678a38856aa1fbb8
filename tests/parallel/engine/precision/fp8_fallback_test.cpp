// SPDX-License-Identifier: Apache-2.0
// Matrices whose FP8 gradients saturate leave FP8 in the same steps on all ranks, in whatever memory these share.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

namespace fs = std::filesystem;

// With room for the sums of two ranks: of four some are beyond the range in most steps.
const Overrides saturating{"precision.gradient_scaling=\"inverse_root\"", "precision.high_precision.fallback_steps=2",
                           "batch.micro=1"};

using Departures = std::vector<std::pair<std::int64_t, std::size_t>>;  // steps and matrices

struct Departed {
  Run run;
  Departures departures;
  std::size_t left = 0;  // matrices in the end
};

// What all ranks see in some steps, from the start or a checkpoint; leaves one in `folder` unless it is empty.
Departed depart(const TrainingSetting& setting, const RankCase& layout, std::int64_t steps, const fs::path& from = {},
                const fs::path& folder = {}) {
  const Recipe recipe = setting.recipe(saturating + layout.overrides);
  std::vector<Departed> seen(static_cast<std::size_t>(layout.ranks));
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, layout.ranks), communicator, at::kCPU);
    if (!from.empty()) trainer.resume(CheckpointReader(from));
    Departed& own = seen[static_cast<std::size_t>(communicator.rank())];
    for (std::int64_t step = 0; step < steps; ++step) {
      const StepResult result = trainer.step();
      own.run.losses.push_back(result.loss);
      own.run.norms.push_back(result.gradient_norm);
      for (const auto& left : result.gradient_fallbacks) own.departures.emplace_back(trainer.steps_done(), left.matrix);
    }
    const GradientFallback& gradients = *trainer.model().gradient_fallback();
    for (const std::size_t matrix : gradients.matrices()) own.left += gradients.has_left(matrix) ? 1 : 0;
    if (!folder.empty()) save(trainer, folder);
  });
  for (const Departed& each : seen) {
    check_equal(each.run, seen.front().run);
    CHECK(each.departures == seen.front().departures);
    CHECK(each.left == seen.front().left);
  }
  return seen.front();
}

}  // namespace

// The numbers of four data ranks are the same at every stage of ZeRO and with every number of pipeline ranks.
TEST_CASE("saturating gradients leave FP8 in the same steps however their states are shared", "[ranks]") {
  const TrainingSetting setting;
  for (const char* level : {"precision.fp8_level=\"O1\"", "precision.fp8_level=\"O2\""}) {
    const Departed expected = depart(setting, {4, {level}}, 6);
    REQUIRE_FALSE(expected.departures.empty());
    // In several steps, of three layers of seven matrices.
    REQUIRE(expected.departures.back().first > expected.departures.front().first);
    REQUIRE(expected.left < 3 * 7);
    for (const RankCase& layout : std::vector<RankCase>{
             {4, {level, zero(3), "pipeline.loops=3"}},
             {4, {level, zero(2)}},
             {8, {level, zero(1), "parallel.pipeline=2", "pipeline.balance=[1,2]", "pipeline.schedule=\"1f1b\""}}}) {
      INFO(in_words(layout.ranks, layout.overrides));
      const Departed found = depart(setting, layout, 6);
      CHECK(found.departures == expected.departures);
      check_close(found.run, expected.run, 1e-5, 1e-4);
    }
  }
}

TEST_CASE("a run goes on with the gradients that have left FP8, and with those about to leave", "[ranks]") {
  const TrainingSetting setting;
  for (const RankCase& layout : std::vector<RankCase>{
           {8, {"precision.fp8_level=\"O3\"", "parallel.tensor=2", zero(1)}},
           {4, {"precision.fp8_level=\"O1\"", "precision.fp8_scaling.method=\"delayed\""}},
           {8,
            {"precision.fp8_level=\"O2\"", "parallel.expert=2", zero(1),
             R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": 0, "ffn_hidden_size": 24})"}}}) {
    INFO(in_words(layout.ranks, layout.overrides));
    const TemporaryDirectory folder;
    const Departed whole = depart(setting, layout, 6);
    const Departed first = depart(setting, layout, 3, {}, folder.path());
    REQUIRE((0 < first.left && first.left < whole.left));
    const Departed later = depart(setting, layout, 3, folder.path() / "step-00000003");
    CHECK(later.left == whole.left);
    CHECK(later.run.losses == std::vector<double>(whole.run.losses.begin() + 3, whole.run.losses.end()));
  }
}

}  // namespace llmtrain::test
