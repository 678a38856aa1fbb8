// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <optional>

#include "core/base/error.h"
#include "parallel/plan/planner/planner.h"
#include "plan_agreement.h"
#include "planner_case.h"

namespace llmtrain::test {
namespace {

template <class Value>
Override set(const std::string& key, Value value) {
  return key + "=" + std::to_string(value);
}

Override word(const std::string& key, const std::vector<std::string>& words) {
  return key + "=" + *rc::gen::elementOf(words);
}

// Random degrees, schedule, precision and memory keys: many combinations are illegal.
std::vector<Override> random_layout() {
  const std::vector<int> powers = {1, 1, 2, 2, 4};
  const auto power = [&] { return *rc::gen::elementOf(powers); };
  std::vector<Override> layout = {
      set("parallel.tensor", power()),
      set("parallel.pipeline", power()),
      set("parallel.context", *rc::gen::element(1, 1, 2)),
      set("parallel.data", power()),
      set("batch.global", 8 * power()),
      set("batch.micro", *rc::gen::element(1, 2)),
      set("pipeline.loops", *rc::gen::element(1, 1, 2)),
      set("parallel.zero_stage", *rc::gen::inRange(0, 4)),
      word("pipeline.schedule", {"breadth_first", "gpipe", "1f1b", "interleaved"}),
      word("memory.recompute", {"none", "selective", "full"}),
      word("kernels.attention", {"flash", "math"}),
      word("parallel.overlap", {"true", "false"}),
      word("precision.compute", {"fp32", "bf16", "fp16"}),
      word("precision.gradients", {"fp32", "bf16"}),
      word("memory.offload.optimizer", {"true", "false"}),
      word("memory.offload.activations", {"true", "false", "false"}),
      word("cluster.profile", {"v100-32gb", "h100-sxm-80gb", "a100-40gb", "cpu"}),
      word("cluster.nodes", {"1", "2"}),
  };
  if (*rc::gen::arbitrary<bool>()) layout.push_back("model.moe={\"experts\": 4, \"top_k\": 2, \"every\": 2}");
  return layout;
}

std::optional<Plan> plan_if_legal(const std::vector<Override>& layout) {
  try {
    const Recipe recipe = small_gpt(layout);
    return make_plan(recipe, profile_of(recipe));
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::bad_recipe);
    RC_ASSERT(std::string(error.what()).find('/') != std::string::npos);
    return std::nullopt;
  }
}

TEST_CASE("any combination of keys is planned with consistent figures, or refused by a key's name") {
  CHECK(rc::check([] {
    const auto plan = plan_if_legal(random_layout());
    RC_CLASSIFY(plan.has_value(), "planned");
    if (!plan) return;
    const auto wrong = disagreements(*plan, profile_of(plan->report.recipe));
    for (const std::string& sentence : wrong) RC_LOG() << sentence << "\n";
    RC_ASSERT(wrong.empty());
  }));
}

TEST_CASE("more recompute never needs more memory for activations, and never less hardware FLOPs") {
  CHECK(rc::check([] {
    const auto layout = random_layout();
    std::optional<Plan> before;
    for (const char* recompute : {"none", "selective", "full"}) {
      auto changed = layout;
      changed.push_back(std::string("memory.recompute=") + recompute);
      auto plan = plan_if_legal(changed);
      if (!plan) return;
      for (std::size_t rank = 0; before && rank < plan->report.ranks.size(); ++rank) {
        const auto activations = [&](const Plan& of) {
          return of.report.ranks[rank].bytes[MemoryCategory::activations] + of.report.ranks[rank].host_bytes;
        };
        RC_ASSERT(activations(*plan) <= activations(*before) * (1 + 1e-12));
        RC_ASSERT(plan->report.throughput.hfu * plan->report.step.seconds >=
                  before->report.throughput.hfu * before->report.step.seconds * (1 - 1e-12));
      }
      before = std::move(plan);
    }
  }));
}

TEST_CASE("a higher ZeRO stage never stores more states") {
  CHECK(rc::check([] {
    const auto layout = random_layout();
    std::optional<Plan> before;
    for (int stage = 0; stage <= 3; ++stage) {
      auto changed = layout;
      changed.push_back(set("parallel.zero_stage", stage));
      auto plan = plan_if_legal(changed);
      if (!plan) return;
      for (std::size_t index = 0; before && index < plan->memory.stages.size(); ++index) {
        const StageMemory& now = plan->memory.stages[index];
        const StageMemory& then = before->memory.stages[index];
        RC_ASSERT(now.resident.total() + now.host_resident.total() <=
                  (then.resident.total() + then.host_resident.total()) * (1 + 1e-12));
      }
      before = std::move(plan);
    }
  }));
}

}  // namespace
}  // namespace llmtrain::test
