// SPDX-License-Identifier: Apache-2.0
// What a run says of its FP8 tensors is what the format does, at every level.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

const Overrides measured{"log.fp8_statistics=true", "batch.micro=2", "log.every=2", "training.steps=5"};

std::vector<StepResult> results_of(const TrainingSetting& setting, const RankCase& layout, int count) {
  const Recipe recipe = setting.recipe(measured + layout.overrides);
  std::vector<StepResult> results;
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, layout.ranks), communicator, at::kCPU);
    for (int step = 0; step < count; ++step) {
      const StepResult result = trainer.step();
      if (communicator.rank() == layout.ranks - 1) results.push_back(result);
    }
  });
  return results;
}

std::string level(int number) { return "precision.fp8_level=\"O" + std::to_string(number) + "\""; }

}  // namespace

TEST_CASE("the tensors of a run have the signal to noise ratio of their format", "[ranks]") {
  const TrainingSetting setting;
  const std::vector<RankCase> layouts{{1, {level(0)}},
                                      {2, {level(1), "precision.compute=\"bf16\"", "memory.recompute=\"full\""}},
                                      {2, {level(2), "parallel.tensor=2"}},
                                      {4, {level(3), zero(3), "parallel.tensor=2", "pipeline.loops=3"}}};
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    const bool casts_gradients = layout.overrides.front() != level(0);
    const std::vector<StepResult> results = results_of(setting, layout, 5);
    // Rows of steps 2, 4 and the last.
    for (const std::size_t step : {0U, 2U}) CHECK(results[step].fp8.empty());
    for (const std::size_t step : {1U, 3U, 4U}) {
      REQUIRE(results[step].fp8.size() == Fp8Statistics::kinds);
      for (std::size_t kind = 0; kind < Fp8Statistics::kinds; ++kind) {
        const Fp8Representation& of = results[step].fp8[kind];
        if (kind >= static_cast<std::size_t>(Fp8Tensors::weight_gradients) && !casts_gradients) {
          CHECK(of.elements == 0);
          continue;
        }
        INFO(fp8_tensor_words[kind]);
        const bool is_e5m2 = kind == static_cast<std::size_t>(Fp8Tensors::output_gradients);
        const bool is_sum = kind == static_cast<std::size_t>(Fp8Tensors::gradient_sums);
        // Sums of several ranks' casts are rounded again: twice the noise, where the ranks' gradients are unlike.
        if (is_sum && layout.overrides[1] != "parallel.tensor=2") {
          CHECK((of.signal_to_noise() > 27.5 && of.signal_to_noise() < 31.5));
        } else {
          CHECK(of.signal_to_noise() == Approx(is_e5m2 ? 25.5 : 31.5).margin(1));
        }
        CHECK(of.saturated == 0);
        CHECK(of.underflowed < 0.02 * of.elements);
        CHECK((of.amax > 0 && of.smallest_scale <= of.largest_scale));
      }
    }
  }
}

TEST_CASE("every element of a step is measured once", "[ranks]") {
  const TrainingSetting setting;
  const auto elements = [&](const RankCase& layout) {
    const std::vector<StepResult> results = results_of(setting, layout, 2);
    std::vector<double> counts;
    for (const Fp8Representation& of : results.at(1).fp8) counts.push_back(of.elements);
    return counts;
  };
  // Three layers see 8 sequences of 24 tokens, in 4 micro-batches, each of which casts the weights.
  const double tokens = 8 * 24, weights = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48;
  const std::vector<double> whole{3 * tokens * (3 * 32 + 48), 4 * 3 * weights, 3 * tokens * (64 + 2 * 32 + 96),
                                  3 * weights, 3 * weights};
  CHECK(elements({1, {level(1)}}) == whole);
  // Two data ranks cast a gradient of each weight, and each has half of the sums.
  CHECK(elements({2, {level(1), zero(1)}}) ==
        std::vector<double>{whole[0], whole[1], whole[2], 2 * whole[3], whole[4]});
  CHECK(elements({2, {level(1), "parallel.pipeline=2", "pipeline.balance=[1,2]"}}) == whole);
}

TEST_CASE("measuring changes no number of the training", "[ranks]") {
  const TrainingSetting setting;
  const Overrides common{level(3), "batch.micro=2", zero(1)};
  check_equal(train_ranks(setting, 2, common + measured, 5),
              train_ranks(setting, 2, common + Overrides{"training.steps=5"}, 5));
}

}  // namespace llmtrain::test
