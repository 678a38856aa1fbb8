// SPDX-License-Identifier: Apache-2.0
// With FP8 products any layout learns what one rank learns.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

constexpr std::int64_t steps = 20;

const Overrides fp8{"precision.fp8_level=\"O0\""};
const Overrides fp8_gradients{"precision.fp8_level=\"O1\""};
const Overrides fp8_moments{"precision.fp8_level=\"O2\""};
const Overrides fp8_weights{"precision.fp8_level=\"O3\""};

// Layouts with which each rank computes whole micro-batches.
std::vector<RankCase> whole_micro_batches() {
  return {{1, {"pipeline.loops=3", "memory.recompute=\"full\""}},
          {2, {zero(1)}},
          {4, {zero(3), "pipeline.loops=3"}},
          {2, {"parallel.pipeline=2", "pipeline.balance=[1,2]", "pipeline.schedule=\"1f1b\""}},
          {4, {"parallel.pipeline=2", "pipeline.balance=[1,2]", zero(2)}}};
}

// Layouts in which several ranks hold parts of the operands.
std::vector<RankCase> shared_operands() {
  return {{2, {"parallel.tensor=2"}},
          {2, {"parallel.tensor=2", "parallel.sequence=false", "memory.recompute=\"selective\""}},
          {4, {"parallel.tensor=4", "memory.recompute=\"full\""}},
          {2, {"parallel.context=2"}},
          {4, {"parallel.context=2", "parallel.tensor=2", "memory.recompute=\"selective\""}},
          {8, {"parallel.tensor=2", "parallel.pipeline=2", "pipeline.balance=[1,2]", zero(3)}}};
}

struct Tolerance {
  double first_loss, loss, norm;
};

// Sums over ranks round differently, in the last bit of fp32 (1e-7), which moves a number over the middle between two
// FP8 numbers (a tenth apart) once in a million. Such an element is off by a tenth: a relative noise of the square root
// of both, 1e-4, in each activation, where fp32 alone has 1e-7.
constexpr Tolerance moved_operands{1e-6, 1e-4, 2e-3};
// So are elements of weights and optimizer states, which stay off for the rest of the run.
constexpr Tolerance moved_states{1e-6, 1e-3, 1e-2};
// Each rank rounds its own part of the gradients, and their sum is rounded again: a noise of 3 % in every element,
// which in sums over a step's elements is much smaller.
constexpr Tolerance rounded_gradients{5e-4, 1e-3, 3e-2};
// The rounding of fp32 alone.
constexpr Tolerance equal_operands{1e-7, 1e-5, 1e-4};

bool is_within(const Run& run, const Run& expected, const Tolerance& tolerance) {
  bool within = run.losses.front() == Approx(expected.losses.front()).epsilon(tolerance.first_loss);
  for (std::size_t i = 0; i < run.losses.size(); ++i)
    within = within && run.losses[i] == Approx(expected.losses[i]).epsilon(tolerance.loss) &&
             run.norms[i] == Approx(expected.norms[i]).epsilon(tolerance.norm);
  return within;
}

// Layouts in which all operands are equal until a weight differs in its last bit, because gradients or their norm were
// summed in another order. Whether that moves a number between two FP8 numbers within a few steps is chance, which the
// processor's order of sums decides. So each run agrees as if one was moved, its first step as if none was, and of a
// few seeds one does so to its end.
void check_alike(const Overrides& level, const std::vector<RankCase>& layouts, const Overrides& model,
                 const Tolerance& moved) {
  const TrainingSetting setting;
  std::map<int, Run> alone;
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    bool is_alike = false;
    for (int seed = 1; seed <= 5 && !is_alike; ++seed) {
      const Overrides common = level + model + Overrides{"batch.micro=2", "seed=" + std::to_string(seed)};
      if (!alone.contains(seed)) alone[seed] = setting.train(common, steps);
      const Run& expected = alone[seed];
      REQUIRE(expected.losses.back() < 0.97 * expected.losses.front());
      const Run run = train_ranks(setting, layout.ranks, common + layout.overrides, steps);
      CHECK(run.losses.front() == Approx(expected.losses.front()).epsilon(equal_operands.first_loss));
      check_close(run, expected, moved.loss, moved.norm);
      is_alike = is_within(run, expected, equal_operands);
    }
    CHECK(is_alike);
  }
}

void check_layouts(const Overrides& level, const std::vector<RankCase>& layouts, const Overrides& model,
                   const Tolerance& tolerance) {
  const TrainingSetting setting;
  const Overrides common = level + model + Overrides{"batch.micro=2"};
  const Run expected = setting.train(common, steps);
  REQUIRE(expected.losses.back() < 0.97 * expected.losses.front());
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Run run = train_ranks(setting, layout.ranks, common + layout.overrides, steps);
    CHECK(run.losses.front() == Approx(expected.losses.front()).epsilon(tolerance.first_loss));
    check_close(run, expected, tolerance.loss, tolerance.norm);
  }
}

const Overrides gpt2{"model.architecture=\"gpt2\"", "model.kv_heads=4"};

Overrides models() { return GENERATE(Overrides{}, gpt2); }

}  // namespace

TEST_CASE("FP8 learns the same where ranks compute whole micro-batches", "[ranks]") {
  const Overrides model = models();
  check_alike(fp8, whole_micro_batches(), model, moved_operands);
  // Against a run with the same attention: another one's rounding moves numbers from the first forward on.
  check_alike(fp8, {{1, {"memory.recompute=\"selective\""}}}, model + Overrides{"kernels.attention=\"math\""},
              moved_operands);
}

TEST_CASE("FP8 learns the same where ranks share the operands of a product", "[ranks]") {
  check_layouts(fp8, shared_operands(), models(), moved_operands);
}

// As fp32 without FP8 in other layouts: the rows that experts compute together differ, their scales do not.
TEST_CASE("FP8 products of experts learn the same on any ranks", "[ranks]") {
  const Overrides experts{
      R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": 1, "ffn_hidden_size": 24, "shared_experts": 1})"};
  check_alike(fp8, {{2, {"parallel.expert=2"}}, {4, {"parallel.expert=4", zero(3), "pipeline.loops=3"}}}, experts,
              moved_operands);
  check_layouts(fp8,
                {{2, {"parallel.tensor=2"}},
                 {4, {"parallel.tensor=2", "parallel.expert=2", "memory.recompute=\"full\""}},
                 {4, {"parallel.tensor=2", "parallel.expert_tensor=1", "parallel.expert=4", "parallel.context=2"}}},
                experts, moved_operands);
}

TEST_CASE("FP8 weights of experts learn the same on tensor ranks", "[ranks]") {
  const Overrides experts{R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": 0, "ffn_hidden_size": 24})"};
  check_alike(fp8_weights, {{1, {"pipeline.loops=3", "memory.recompute=\"selective\""}}}, experts, moved_states);
  check_layouts(fp8_weights, {{2, {"parallel.tensor=2"}}}, experts, moved_states);
}

TEST_CASE("FP8 gradients are the same where no data ranks sum them", "[ranks]") {
  const std::vector<RankCase> layouts{
      {1, {"pipeline.loops=3", "memory.recompute=\"full\""}},
      {2, {"parallel.pipeline=2", "pipeline.balance=[1,2]", "pipeline.schedule=\"1f1b\""}}};
  check_alike(fp8_gradients, layouts, models(), moved_states);
}

TEST_CASE("FP8 gradients are the same on tensor ranks", "[ranks]") {
  const std::vector<RankCase> layouts{
      {2, {"parallel.tensor=2"}},
      // Two ranks hold each key-value head.
      {4, {"parallel.tensor=4", "parallel.sequence=false", "memory.recompute=\"full\""}},
      {4, {"parallel.tensor=2", "parallel.pipeline=2", "pipeline.balance=[1,2]"}}};
  check_layouts(fp8_gradients, layouts, models(), moved_states);
}

TEST_CASE("FP8 gradients of data ranks learn what one rank learns", "[ranks]") {
  const std::vector<RankCase> layouts{
      {2, {}},
      {4, {zero(1), "pipeline.loops=3"}},
      {4, {zero(1), "parallel.pipeline=2", "pipeline.balance=[1,2]"}},
      {4, {"parallel.context=2"}},
      {4, {zero(3), "pipeline.loops=3", "parallel.tensor=2"}},
      {8, {zero(2), "batch.micro=1"}},
  };
  check_layouts(fp8_gradients, layouts, models(), rounded_gradients);
}

// Moments are rounded once per step: with scales of the logical tensor, in any layout alike.
TEST_CASE("small moments learn what one rank learns", "[ranks]") {
  const std::vector<RankCase> alike{
      {1, {"pipeline.loops=3"}}, {2, {"parallel.pipeline=2", "pipeline.balance=[1,2]", "pipeline.schedule=\"1f1b\""}}};
  check_alike(fp8_moments, alike, gpt2, moved_states);
  check_layouts(fp8_moments, {{2, {"parallel.tensor=2"}}}, gpt2, moved_states);
  const std::vector<RankCase> data{
      {2, {}},
      {4, {zero(1), "parallel.pipeline=2", "pipeline.balance=[1,2]"}},
      {4, {zero(2), "parallel.context=2"}},
      {4, {zero(3), "pipeline.loops=3", "parallel.tensor=2"}},
  };
  check_layouts(fp8_moments, data, gpt2, rounded_gradients);
}

TEST_CASE("FP8 weights learn what one rank learns", "[ranks]") {
  const std::vector<RankCase> alike{
      {1, {"pipeline.loops=3", "memory.recompute=\"full\""}},
      {2, {"parallel.pipeline=2", "pipeline.balance=[1,2]", "pipeline.schedule=\"1f1b\""}}};
  check_alike(fp8_weights, alike, {}, moved_states);
  const std::vector<RankCase> tensor{{4, {"parallel.tensor=4", "parallel.sequence=false"}}};
  check_layouts(fp8_weights, tensor, {}, moved_states);
  const std::vector<RankCase> data{
      {4, {zero(1), "parallel.context=2"}},
      {4, {zero(2), "parallel.pipeline=2", "pipeline.balance=[1,2]"}},
      // Breadth-first.
      {4, {zero(3), "pipeline.loops=3", "parallel.tensor=2"}},
  };
  check_layouts(fp8_weights, data, {}, rounded_gradients);
}

TEST_CASE("layers in high precision take no part in FP8", "[ranks]") {
  const TrainingSetting setting;
  const Overrides all{"precision.high_precision.parameters=[\"layers.*\"]", "batch.micro=2"};
  const Run plain = setting.train({"batch.micro=2"}, 4);
  for (const Overrides& level : {fp8, fp8_weights}) check_equal(setting.train(level + all, 4), plain);
  // One layer of three, and a matrix of another.
  const Overrides some{"precision.high_precision.last_layers=1",
                       "precision.high_precision.parameters=[\"layers.0.ffn.down.weight\"]"};
  const std::vector<RankCase> layouts{
      {2, {"parallel.tensor=2"}},
      {2, {"parallel.pipeline=2", "pipeline.balance=[1,2]", "pipeline.schedule=\"1f1b\""}},
      {4, {zero(3), "pipeline.loops=3", "parallel.tensor=2"}}};
  check_layouts(fp8_weights + some, layouts, {}, rounded_gradients);
}

TEST_CASE("every FP8 gradient is counted once, and none saturates in the first step", "[ranks]") {
  const TrainingSetting setting;
  const std::vector<RankCase> layouts{{1, {}},
                                      {4, {zero(1)}},
                                      {4, {"parallel.tensor=2", zero(3), "pipeline.loops=3"}},
                                      {4, {"parallel.pipeline=2", "pipeline.balance=[1,2]", "parallel.context=2"}}};
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Recipe recipe = setting.recipe(fp8_gradients + Overrides{"batch.micro=2"} + layout.overrides);
    std::vector<StepResult> results(static_cast<std::size_t>(layout.ranks));
    LocalWorld(layout.ranks).run([&](Communicator& communicator) {
      Trainer trainer(layout_of(recipe, layout.ranks), communicator, at::kCPU);
      results[static_cast<std::size_t>(communicator.rank())] = trainer.step();
    });
    for (const StepResult& result : results) {
      // Query and output, key and value, and three matrices of the network, of three layers.
      CHECK(result.saturated.elements == 3 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48));
      CHECK(result.saturated.saturated == 0);
    }
  }
}

// Rounded once, of the sums over all micro-batches, also where the schedule reduces others more often, whose fp32 sums
// then differ in the last bit.
TEST_CASE("FP8 gradients are the same however often the schedule reduces", "[ranks]") {
  const TrainingSetting setting;
  const Overrides common = fp8_gradients + Overrides{"batch.micro=1"};
  const auto run = [&](int ranks, const Overrides& layout, const std::string& schedule) {
    return train_ranks(setting, ranks, common + layout + Overrides{"pipeline.schedule=\"" + schedule + "\""}, 4);
  };
  for (const int stage : {2, 3}) {
    const Overrides two{zero(stage), "pipeline.loops=3"};
    check_close(run(2, two, "1f1b"), run(2, two, "breadth_first"), 1e-6, 1e-5);
    const Overrides piped{zero(stage), "parallel.pipeline=2", "pipeline.loops=2", "model.layers=4"};
    check_close(run(4, piped, "interleaved"), run(4, piped, "breadth_first"), 1e-6, 1e-5);
  }
}

TEST_CASE("a layout that FP8 gradients cannot have is refused before it is used", "[ranks]") {
  const TrainingSetting setting;
  const Recipe recipe =
      setting.recipe(fp8_gradients + Overrides{zero(1), "parallel.zero_shard_ranks=1", "batch.micro=2"});
  const auto start = [&](Communicator& communicator) {
    const Trainer trainer(layout_of(recipe, 2), communicator, at::kCPU);
  };
  CHECK_THROWS_WITH(LocalWorld(2).run(start),
                    Catch::Contains("with FP8 gradients") && Catch::Contains("can be planned but not run yet"));
}

TEST_CASE("FP8 runs are bitwise reproducible", "[ranks]") {
  const TrainingSetting setting;
  const Overrides bf16{"batch.micro=2", "precision.compute=\"bf16\""};
  for (const Overrides& layout : {fp8 + Overrides{"parallel.tensor=2"}, fp8_gradients + Overrides{zero(1)}})
    check_equal(train_ranks(setting, 2, layout + bf16, 4), train_ranks(setting, 2, layout + bf16, 4));
}

}  // namespace llmtrain::test
