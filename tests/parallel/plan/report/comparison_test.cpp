// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/comparison.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "tests/parallel/plan/report/sample_report.h"

namespace llmtrain {
namespace {

std::vector<std::string> keys(const std::vector<KeyDifference>& differences) {
  std::vector<std::string> found;
  for (const KeyDifference& difference : differences) found.push_back(difference.key);
  return found;
}

// The second does half the recompute, and needs 8 GiB more.
PlanComparison sample_comparison() {
  PlanComparison comparison{test::sample_report(), test::sample_report(), {}, {}};
  PlanReport& second = comparison.second;
  second.recipe.memory.recompute = Recompute::selective;
  second.step.seconds -= 2.5;
  second.step.compute_seconds -= 2.5;
  second.step.recompute_seconds -= 2.5;
  second.ranks[0].bytes[MemoryCategory::activations] += 8.0 * (1U << 30U);
  second.ranks[0].peak_bytes += 8.0 * (1U << 30U);
  return comparison;
}

}  // namespace

TEST_CASE("recipes differ in their keys, not in their names") {
  const Recipe first = test::sample_report().recipe;
  CHECK(key_differences(first, first).empty());
  Recipe second = first;
  second.name = "another";
  second.description = "of the same";
  second.batch.micro = 4;
  second.pipeline.balance = {BalanceKind::list, {1, 2}};
  const auto differences = key_differences(first, second);
  CHECK(keys(differences) == std::vector<std::string>{"batch.micro", "pipeline.balance"});
  CHECK(differences[0].first == 1);
  CHECK(differences[0].second == 4);
  CHECK(differences[1].second == Json::array({1, 2}));
}

TEST_CASE("a section that one recipe lacks is listed by its keys") {
  const Recipe first = test::sample_report().recipe;
  Recipe second = first;
  second.model.moe = MixtureOfExpertsRecipe{};
  second.model.moe->experts = 8;
  const auto differences = key_differences(first, second);
  const auto experts = std::ranges::find(differences, "model.moe.experts", &KeyDifference::key);
  REQUIRE(experts != differences.end());
  CHECK(experts->first.is_null());
  CHECK(experts->second == 8);
}

TEST_CASE("a comparison shows both figures and the change of the second") {
  PlanComparison comparison = sample_comparison();
  for (const KeyDifference& difference : key_differences(comparison.first.recipe, comparison.second.recipe))
    comparison.effects.push_back({difference, {comparison.second, ""}});
  comparison.effects.push_back({{"batch.micro", 1, 7}, {std::nullopt, "/batch/micro: " + std::string(200, 'x')}});
  comparison.together = {comparison.first, ""};
  const std::string text = comparison_text(comparison, {});
  for (const std::size_t width : {60, 80, 100, 160}) {
    std::istringstream lines(comparison_text(comparison, {TextColour::off, width}));
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(columns(line) <= width);
    }
  }
  CHECK_THAT(comparison_text(comparison, {TextColour::off, 80}),
             Catch::Contains("memory.recompute                     full      selective\n"
                             "      step -10.0 %, memory +13.3 %\n"));
  CHECK_THAT(text, Catch::Contains("  step                             25.0s         22.5s     -10.0 %\n"));
  CHECK_THAT(text, Catch::Contains("  activations                   32.0 GiB      40.0 GiB     +25.0 %\n"));
  CHECK_THAT(text, Catch::Contains("  weights                       2.50 GiB      2.50 GiB           =\n"));
  CHECK_THAT(text, Catch::Contains(
                       "memory.recompute                     full      selective   step -10.0 %, memory +13.3 %\n"));
  CHECK_THAT(text, Catch::Contains("refused: /batch/micro:\n"));
  CHECK_THAT(text, Catch::Contains("the refused keys together") && Catch::EndsWith("   no change\n"));
}

}  // namespace llmtrain
