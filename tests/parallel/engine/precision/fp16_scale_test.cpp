// SPDX-License-Identifier: Apache-2.0
// fp16 with a loss scale: overflows are survived alike by all ranks, and no number of the training depends on the
// scale.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

const Overrides fp16{"precision.compute=\"fp16\"", "batch.micro=2"};

Overrides scale(const std::string& initial, const std::string& growth_steps) {
  return {"precision.loss_scale.initial=" + initial, "precision.loss_scale.growth_steps=" + growth_steps};
}

struct Steps {
  std::vector<StepResult> results;
  std::vector<std::int64_t> in_a_row;  // skipped updates, after each step
};

// Returns what the last rank found.
Steps train(const TrainingSetting& setting, const RankCase& layout, const Overrides& overrides, int count) {
  const Recipe recipe = setting.recipe(fp16 + overrides + layout.overrides);
  Steps found;
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, layout.ranks), communicator, at::kCPU);
    for (int step = 0; step < count; ++step) {
      const StepResult result = trainer.step();
      if (communicator.rank() + 1 < layout.ranks) continue;
      found.results.push_back(result);
      found.in_a_row.push_back(trainer.skipped().in_a_row);
    }
  });
  return found;
}

std::vector<RankCase> scaled_layouts() {
  return {{1, {}},
          {2, {zero(1), "precision.gradients=\"fp16\""}},
          {2, {"parallel.tensor=2", "memory.recompute=\"full\""}},
          {4, {"parallel.pipeline=2", "pipeline.balance=[1,2]", "parallel.context=2"}},
          {4, {zero(3), "pipeline.loops=3", "parallel.tensor=2", "precision.fp8_level=\"O3\""}},
          {2,
           {"parallel.expert=2",
            "model.moe={\"experts\": 4, \"top_k\": 2, \"balance_coefficient\": 1, \"z_coefficient\": 1}"}}};
}

}  // namespace

TEST_CASE("an overflow lowers the loss scale, and training goes on", "[ranks]") {
  const TrainingSetting setting;
  for (const RankCase& layout : scaled_layouts()) {
    INFO(in_words(layout.ranks, layout.overrides));
    // The largest gradients of logits are those of the loss, 1 ÷ 192 tokens: 2²⁴ of them are beyond fp16.
    const Steps done = train(setting, layout, scale("16777216", "1000"), 12);
    double expected = 0x1p24;
    for (std::size_t i = 0; i < done.results.size(); ++i) {
      const StepResult& result = done.results[i];
      CHECK(result.loss_scale == expected);
      CHECK(result.lowers_scale == result.skipped);
      CHECK(done.in_a_row[i] == 0);
      if (result.skipped) expected /= 2;
    }
    CHECK(done.results.front().skipped);
    CHECK_FALSE(done.results.back().skipped);
    CHECK(std::isfinite(done.results.back().gradient_norm));
  }
}

TEST_CASE("the loss scale grows, and changes no number but those that underflow", "[ranks]") {
  const TrainingSetting setting;
  for (const RankCase& layout : scaled_layouts()) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Steps growing = train(setting, layout, scale("256", "1"), 4),
                still = train(setting, layout, scale("1024", "1000"), 4);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(growing.results[i].loss_scale == std::exp2(8 + static_cast<double>(i)));
      CHECK(still.results[i].loss_scale == 1024);
      CHECK(growing.results[i].loss == Approx(still.results[i].loss).epsilon(1e-3));
      CHECK(growing.results[i].gradient_norm == Approx(still.results[i].gradient_norm).epsilon(2e-2));
    }
  }
}

TEST_CASE("updates that no lower loss scale can save count as skipped in a row", "[ranks]") {
  const TrainingSetting setting;
  // Weights that soon are beyond fp16: the loss itself is not finite.
  const Overrides diverging{"training.learning_rate.peak=1", "training.learning_rate.warmup_steps=0",
                            "training.clip_norm=0", "model.init_std=1"};
  const Steps done = train(setting, {1, {}}, diverging + scale("2", "1000"), 30);
  REQUIRE(done.results.back().skipped);
  CHECK(done.results.back().loss_scale == 1);
  CHECK_FALSE(done.results.back().lowers_scale);
  CHECK(done.in_a_row.back() > 0);
}

}  // namespace llmtrain::test
