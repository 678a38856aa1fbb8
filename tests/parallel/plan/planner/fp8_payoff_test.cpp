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

std::vector<std::string> without_gain(const Recipe& recipe) {
  const ClusterProfile cluster = profile_of(recipe);
  return products_without_fp8_gain(make_plan(recipe, cluster), cluster);
}

// A small GPT on eight H100.
Recipe on_h100(const std::vector<Override>& overrides) {
  std::vector<Override> all{"cluster.profile=\"h100-sxm-80gb\"", "precision.compute=\"bf16\"",
                            "precision.fp8_level=\"O1\""};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return small_gpt(all);
}

TEST_CASE("products that FP8 does not make faster are named by their shape") {
  CHECK(without_gain(paper("fp8-lm-175b")).empty());
  CHECK(without_gain(paper("fp8-lm-175b", {"precision.fp8_level=\"off\""})).empty());
  // V100 have no FP8 products, of which there is a warning already.
  CHECK(without_gain(small_gpt({"precision.fp8_level=O2"})).empty());
  const std::vector<std::string> warnings = without_gain(on_h100({"model.hidden_size=256"}));
  // The same shapes in all layers: four warnings.
  REQUIRE(warnings.size() == 4);
  CHECK(warnings[0].starts_with("precision.fp8_level: attention.query_key_value (768 × 256 for "));
  CHECK(warnings[3].starts_with("precision.fp8_level: feed_forward.network.down (256 × 1024 for "));
}

TEST_CASE("products in high precision are not named") {
  const std::vector<std::string> warnings =
      without_gain(on_h100({"model.hidden_size=256", "precision.high_precision.parameters=[\"*.ffn.*\"]"}));
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[1].starts_with("precision.fp8_level: attention.output (256 × 256 for "));
}

}  // namespace
}  // namespace llmtrain::test
