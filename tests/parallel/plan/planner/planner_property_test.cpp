// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <optional>

#include "parallel/plan/planner/planner.h"
#include "plan_agreement.h"
#include "planner_case.h"
#include "random_recipe.h"

namespace llmtrain::test {
namespace {

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
