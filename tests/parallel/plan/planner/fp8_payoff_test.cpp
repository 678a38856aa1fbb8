// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/planner.h"

#include <catch2/catch.hpp>

#include "planner_case.h"

namespace llmtrain::test {
namespace {

std::optional<std::string> verdict(const Recipe& recipe) {
  const ClusterProfile cluster = profile_of(recipe);
  return fp8_does_not_pay(make_plan(recipe, cluster), cluster);
}

TEST_CASE("FP8 pays off as used in FP8-LM, and without FP8 there is no message") {
  CHECK(!verdict(paper("fp8-lm-7b")));
  CHECK(!verdict(paper("fp8-lm-175b")));
  CHECK(!verdict(paper("fp8-lm-7b", {"precision.fp8_level=\"off\""})));
  CHECK(!verdict(paper("gpt3-175b")));
}

TEST_CASE("FP8 that is not faster is reported with both times") {
  const auto said = verdict(small_gpt({"precision.fp8_level=O2"}));
  REQUIRE(said);
  CHECK(said->find("precision.fp8_level") == 0);
  CHECK(said->find("\"off\"") != std::string::npos);
}

TEST_CASE("FP8 that makes a recipe fit pays off, however slow") {
  const Recipe recipe = small_gpt({"model.hidden_size=2048", "precision.fp8_level=O3", "cluster.devices_per_node=1"});
  Recipe without = recipe;
  without.precision.fp8_level = Fp8Level::off;
  const ClusterProfile cluster = profile_of(recipe);
  ClusterProfile tight = cluster;
  tight.device.memory_bytes =
      (peak_bytes(make_plan(recipe, cluster).report) + peak_bytes(make_plan(without, cluster).report)) / 2;
  CHECK(fp8_does_not_pay(make_plan(recipe, cluster), cluster));
  CHECK(!fp8_does_not_pay(make_plan(recipe, tight), tight));
}

}  // namespace
}  // namespace llmtrain::test
