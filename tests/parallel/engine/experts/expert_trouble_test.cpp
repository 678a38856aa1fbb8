// SPDX-License-Identifier: Apache-2.0
// Models with experts on several ranks in the routings that nobody wants: all tokens at a few experts, ranks without a
// token, logits that are no numbers. All ranks go on as one rank does.
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/huggingface/weight_source.h"
#include "parallel/engine/model_state.h"
#include "tests/parallel/engine/experts/expert_models.h"
#include "tests/parallel/engine/named_weights.h"

namespace llmtrain::test {
namespace {

constexpr double step_tokens = 8 * 24;

// The models have eight experts: of these layouts some ranks have one, others several of them.
std::vector<RankCase> crowded_layouts() {
  return {{4, {experts(4), zero(1)}},
          {8, {experts(8), zero(3), "pipeline.loops=3"}},
          {8, two_nodes(4) + Overrides{experts(8), parts(4)}},
          {4, {tensor(2), sliced(1), experts(4), "memory.recompute=\"full\""}},
          {8, {experts(4), sliced(2), "memory.recompute=\"computation\""}},
          {8, {context(2), experts(2), "parallel.pipeline=2", "pipeline.balance=[1,2]"}}};
}

// What each rank returns of two steps is what one rank does.
void check_layouts(const TrainingSetting& setting, const Overrides& model, const std::vector<StepResult>& expected) {
  for (const RankCase& layout : crowded_layouts()) {
    INFO(in_words(layout.ranks, layout.overrides));
    for (const auto& results : steps_of(setting.recipe(model + layout.overrides), layout.ranks, 2))
      for (std::size_t step = 0; step < results.size(); ++step) {
        CHECK(results[step].chosen == expected[step].chosen);
        check_same_step(results[step], expected[step]);
      }
  }
}

// Norms before the experts that give every token the same direction, and routers that prefer experts 5 and then 4 in
// it by far.
NamedWeights one_sided_weights() {
  NamedWeights weights;
  for (int layer = 0; layer < 3; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    weights[prefix + "ffn_norm.weight"] = at::zeros({32});
    weights[prefix + "ffn_norm.bias"] = at::ones({32});
    at::Tensor router = at::empty({8, 32});
    for (std::int64_t expert = 0; expert < 8; ++expert)
      router.select(0, expert).fill_(-0.02 * static_cast<double>(expert + 1));
    router.select(0, 5).fill_(0.2);
    router.select(0, 4).fill_(0.1);
    weights[prefix + "ffn.router.weight"] = router;
  }
  return weights;
}

std::vector<StepResult> one_sided_steps(Trainer& trainer) {
  load_weights(trainer.model(), NamedWeightSource(one_sided_weights()));
  std::vector<StepResult> steps;
  for (int step = 0; step < 2; ++step) steps.push_back(trainer.step());
  return steps;
}

// A row of a parameter whose elements are no numbers.
struct Damage {
  std::string parameter;
  std::int64_t row = 0;
};

// A step with the damage and two after its repair.
std::vector<StepResult> damaged_steps(Trainer& trainer, const Damage& damage, const NamedWeights& whole) {
  const at::Tensor& intact = whole.at(damage.parameter);
  at::Tensor damaged = intact.clone();
  damaged.select(0, damage.row).fill_(std::numeric_limits<double>::quiet_NaN());
  load_weights(trainer.model(), NamedWeightSource({{damage.parameter, damaged}}));
  std::vector<StepResult> steps{trainer.step()};
  load_weights(trainer.model(), NamedWeightSource({{damage.parameter, intact}}));
  for (int step = 0; step < 2; ++step) steps.push_back(trainer.step());
  return steps;
}

void check_damaged(const std::vector<StepResult>& got, const std::vector<StepResult>& expected) {
  CHECK((got[0].skipped && std::isnan(got[0].loss) && !std::isfinite(got[0].gradient_norm)));
  for (std::size_t step = 1; step < got.size(); ++step) {
    CHECK_FALSE(got[step].skipped);
    check_same_step(got[step], expected[step]);
  }
}

}  // namespace

TEST_CASE("all tokens may go to the experts of one rank, and none to those of the others", "[ranks]") {
  const TrainingSetting setting;
  for (const Overrides& model : {dropless + Overrides{"model.moe.top_k=1"}, dropping}) {
    const Overrides crowded = model + Overrides{"model.moe.routing_zipf=100", "log.routing=true"};
    const std::vector<StepResult> expected = steps_of(setting.recipe(crowded), 1, 2)[0];
    const bool drops = model == dropping;
    const std::vector<double> chosen{step_tokens, drops ? step_tokens : 0, 0, 0, 0, 0, 0, 0};
    for (const StepResult& step : expected) {
      CHECK(step.chosen == RoutingCounts(3, chosen));
      CHECK(step.routing.load / step.routing.passes == Approx(drops ? 4 : 8));
      // Two experts have twice three places each for 24 tokens' two choices.
      CHECK(step.routing.dropped_share / step.routing.passes == Approx(drops ? 0.75 : 0));
    }
    check_layouts(setting, crowded, expected);
  }
}

TEST_CASE("so may those whose routers send them there", "[ranks]") {
  const TrainingSetting setting;
  const Overrides counted = dropping + Overrides{"log.routing=true"};
  LoneTrainer one(setting.recipe(counted));
  const std::vector<StepResult> expected = one_sided_steps(one);
  for (const StepResult& step : expected)
    CHECK(step.chosen == RoutingCounts(3, {0, 0, 0, 0, step_tokens, step_tokens, 0, 0}));
  for (const RankCase& layout :
       {RankCase{4, {experts(4), zero(3), "pipeline.loops=3"}}, RankCase{4, {tensor(2), experts(2), parts(2)}}}) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Recipe recipe = setting.recipe(counted + layout.overrides);
    std::vector<std::vector<StepResult>> results(static_cast<std::size_t>(layout.ranks));
    LocalWorld(layout.ranks).run([&](Communicator& communicator) {
      Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
      results[static_cast<std::size_t>(communicator.rank())] = one_sided_steps(trainer);
    });
    for (const auto& steps : results)
      for (std::size_t step = 0; step < steps.size(); ++step) {
        CHECK(steps[step].chosen == expected[step].chosen);
        check_same_step(steps[step], expected[step]);
      }
  }
}

// The last position's embedding spoils tokens of some context ranks alone, a router's row all tokens.
TEST_CASE("logits that are no numbers reach the loss of all ranks, which skip the update and go on", "[ranks]") {
  const TrainingSetting setting;
  const Damage of_router{"layers.1.ffn.router.weight", 2}, of_position{"embedding.position.weight", 23};
  for (const auto& spoiled :
       {std::pair{dropping, of_router}, std::pair{scored, of_router}, std::pair{scored, of_position}}) {
    const Overrides& model = spoiled.first;
    const Damage& damage = spoiled.second;
    LoneTrainer one(setting.recipe(model));
    const NamedWeights whole = named_weights(one.model());
    const std::vector<StepResult> expected = damaged_steps(one, damage, whole);
    check_damaged(expected, expected);
    for (const RankCase& layout : {RankCase{4, {experts(4), zero(1)}},
                                   RankCase{4, {experts(2), zero(3), "parallel.pipeline=2", "pipeline.balance=[1,2]"}},
                                   RankCase{8, {tensor(2), context(2), sliced(1), experts(4), zero(1)}}}) {
      INFO(damage.parameter << ", " << in_words(layout.ranks, model + layout.overrides));
      const Recipe recipe = setting.recipe(model + layout.overrides);
      std::vector<std::vector<StepResult>> results(static_cast<std::size_t>(layout.ranks));
      LocalWorld(layout.ranks).run([&](Communicator& communicator) {
        Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
        results[static_cast<std::size_t>(communicator.rank())] = damaged_steps(trainer, damage, whole);
      });
      for (const std::vector<StepResult>& steps : results) check_damaged(steps, expected);
    }
  }
}

}  // namespace llmtrain::test
