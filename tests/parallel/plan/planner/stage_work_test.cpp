// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/stage_work.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "parallel/plan/planner/planner.h"
#include "planner_case.h"

namespace llmtrain::test {
namespace {

double sum_of(const std::vector<PricedWork>& list) {
  return std::accumulate(list.begin(), list.end(), 0.0,
                         [](double sum, const PricedWork& work) { return sum + work.seconds; });
}

Plan recorded(const Recipe& recipe) { return make_plan(recipe, profile_of(recipe), Timeline::record); }

const WorkOfStage& work_of(const Plan& plan, std::size_t stage) {
  return plan.report.work.kinds.at(plan.report.work.kind_of.at(stage));
}

// The first of the name, which must be there.
const PricedWork& named(const std::vector<PricedWork>& list, const std::string& name) {
  const auto found = std::ranges::find(list, name, &PricedWork::name);
  INFO(name);
  REQUIRE(found != list.end());
  return *found;
}

TEST_CASE("the work of a stage's instructions adds up to their prices") {
  struct Case {
    const char* name;
    std::vector<Override> overrides;
  };
  // Blocking tensor traffic and overlapped, recomputation, experts, FP8, gradients beside their sums, offloading.
  for (const auto& [name, overrides] :
       {Case{"models/llama3-70b", {}},
        {"models/llama3-70b", {"cluster.program=torchtitan-async-tp"}},
        {"models/mixtral-8x22b", {"parallel.expert_overlap=2"}},
        {"papers/gpt3-175b", {}},
        {"papers/fp8-lm-175b", {}},
        {"papers/gpt3-175b", {"cluster.program=megatron-deepspeed", "memory.offload.activations=true"}}}) {
    const Plan plan = recorded(read_recipe(recipes() / (std::string(name) + ".json"), overrides));
    REQUIRE(plan.report.work.kind_of.size() == plan.costs.stages.size());
    for (std::size_t stage = 0; stage < plan.costs.stages.size(); ++stage) {
      INFO(name << " stage " << stage);
      const WorkOfStage& work = work_of(plan, stage);
      const StageCost& cost = plan.costs.stages[stage];
      CHECK(sum_of(work.forward) == Approx(cost.forward.seconds).epsilon(1e-6));
      CHECK(sum_of(work.backward) == Approx(cost.backward.seconds).epsilon(1e-6));
      CHECK(sum_of(work.gather) == Approx(cost.gather_seconds).epsilon(1e-9).margin(1e-12));
      CHECK(sum_of(work.reduction) == Approx(cost.reduce_seconds + cost.last_reduce_seconds).epsilon(1e-9));
    }
  }
}

TEST_CASE("work that measured operators price says how near these were, and whose") {
  const auto up_on = [](const char* device) {
    const Plan plan = recorded(read_recipe(recipes() / "models/llama3-70b.json",
                                           {"cluster.program=llmtrain", std::string("cluster.profile=") + device}));
    const std::vector<PricedWork>& forward = work_of(plan, 1).forward;
    CHECK(named(forward, "feed_forward.network.activation").source == "operators");
    CHECK_FALSE(named(forward, "attention.core").basis.empty());
    CHECK(named(forward, "feed_forward.network.up").source == "operators");
    return named(forward, "feed_forward.network.up").basis;
  };
  CHECK(up_on("h100-sxm-80gb") == "interpolated");
  CHECK(up_on("a100-40gb") == "interpolated, borrowed from a100-80gb");
}

TEST_CASE("work of experts says how near the measured grouped products were") {
  const auto up_with = [](const std::vector<Override>& further) {
    std::vector<Override> overrides = {"cluster.program=automodel"};
    overrides.insert(overrides.end(), further.begin(), further.end());
    const Plan plan = recorded(read_recipe(recipes() / "models/qwen3-30b-a3b.json", overrides));
    return named(work_of(plan, 0).forward, "feed_forward.experts.routed.up").basis;
  };
  CHECK(up_with({}) == "interpolated");
  // None of those in FP8 was measured.
  CHECK(up_with({"precision.fp8_level=O0"}) == "extrapolated");
}

TEST_CASE("a product states its shape, its FLOPs and the part of the peak that it reaches") {
  const Recipe recipe = read_recipe(recipes() / "models/llama3-70b.json");
  const Plan plan = recorded(recipe);
  const double peak = profile_of(recipe).device.peak_flops.bf16;
  for (const auto& [direction, products] : {std::pair{&WorkOfStage::forward, 1}, {&WorkOfStage::backward, 2}}) {
    const PricedWork& up = named(work_of(plan, 1).*direction, "feed_forward.network.up");
    // 8,192 tokens, and an eighth of 28,672 columns, twice with the gate's.
    CHECK(up.shape == "8192 × 8192 × 7168");
    CHECK(up.amount == products * 2.0 * 8192 * 8192 * 7168);
    CHECK(up.peak == peak);
    CHECK(up.efficiency == Approx(static_cast<double>(up.count) * up.amount / up.seconds / peak));
    CHECK(up.efficiency > 0.3);
    CHECK(up.efficiency < 0.8);
    CHECK(up.source == "matrix");
  }
  CHECK(named(work_of(plan, 1).forward, "feed_forward.network.up").count ==
        layer_count(plan.layout->graph(), plan.layout->partition().stages[1]));
  CHECK(plan.report.work.sources.at("matrix") == profile_of(recipe).sources.at("matrix"));
}

TEST_CASE("stages with the same blocks share their work, and the longest comes first") {
  const Plan plan = recorded(read_recipe(recipes() / "papers/gpt3-175b.json"));
  const StageWork& work = plan.report.work;
  // The first stage with the embedding, those between, and the last with the head.
  CHECK(work.kinds.size() == 3);
  CHECK(std::ranges::count(work.kind_of, work.kind_of[1]) == std::ssize(work.kind_of) - 2);
  REQUIRE(work.transfer.size() == 1);
  CHECK(work.transfer[0].amount > 0);
  for (const WorkOfStage& of : work.kinds) {
    for (const auto* list : {&of.forward, &of.backward, &of.gather, &of.reduction}) {
      CHECK(std::ranges::is_sorted(*list, std::ranges::greater{}, &PricedWork::seconds));
      for (const PricedWork& item : *list) {
        INFO(item.name);
        CHECK(item.seconds > 0);
        CHECK(item.efficiency >= 0);
        CHECK(item.efficiency <= 1);
        CHECK((item.source.empty() || work.sources.contains(item.source)));
      }
    }
    // Full recomputation runs every operator of the forward again.
    CHECK(named(of.backward, "again: attention.query_key_value").amount ==
          named(of.forward, "attention.query_key_value").amount);
  }
  CHECK(make_plan(plan.layout, profile("a100-80gb")).report.work.kinds.empty());
}

}  // namespace
}  // namespace llmtrain::test
