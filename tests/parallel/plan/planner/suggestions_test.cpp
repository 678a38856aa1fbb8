// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <set>
#include <sstream>
#include <utility>

#include "parallel/plan/planner/neighbours.h"
#include "parallel/plan/planner/planner.h"
#include "planner_case.h"

namespace llmtrain::test {
namespace {

using Reader = std::function<Recipe(const std::vector<Override>&)>;

std::vector<Override> words_of(const std::string& change) {
  std::istringstream stream(change);
  std::vector<Override> words;
  for (std::string word; stream >> word;)
    if (word != "--set") words.push_back(word);
  return words;
}

// Applies each suggestion as a user would, with --set, and plans again. Returns how many there were.
std::size_t check_promises(const Reader& read, const std::vector<Override>& overrides) {
  const Recipe recipe = read(overrides);
  const ClusterProfile cluster = profile_of(recipe);
  const Plan plan = make_plan(recipe, cluster);
  const auto suggestions = suggest(plan, cluster);
  CHECK(suggestions.size() <= 3);
  double before = 0;
  for (const PlanSuggestion& suggestion : suggestions) {
    INFO(suggestion.change);
    std::vector<Override> all = overrides;
    for (const Override& word : words_of(suggestion.change)) all.push_back(word);
    const PlanReport report = make_plan(read(all), cluster).report;
    CHECK(report.step.seconds == suggestion.step_seconds);
    CHECK(peak_bytes(report) == suggestion.peak_bytes);
    CHECK(report.fits);
    CHECK(suggestion.fits);
    CHECK(report.mesh.world() == plan.report.mesh.world());
    CHECK((!plan.report.fits || suggestion.step_seconds < 0.98 * plan.report.step.seconds));
    CHECK(suggestion.step_seconds >= before);
    before = suggestion.step_seconds;
  }
  return suggestions.size();
}

TEST_CASE("a suggestion has the stated effect when it is applied") {
  std::size_t count = 0;
  for (const char* change : {"seed=1", "memory.recompute=full", "parallel.zero_stage=3", "parallel.pipeline=2",
                             "parallel.tensor=2", "batch.micro=2", "model.hidden_size=4096"}) {
    INFO(change);
    count += check_promises(small_gpt, {change});
  }
  for (const std::string& name : paper_names()) {
    if (name.starts_with("zero")) continue;
    INFO(name);
    count += check_promises([&](const std::vector<Override>& overrides) { return paper(name, overrides); }, {});
  }
  CHECK(count > 10);
}

TEST_CASE("a recipe that does not fit gets suggestions that make it fit") {
  CHECK(check_promises(small_gpt, {"model.hidden_size=8192", "model.heads=64", "parallel.zero_stage=0"}) > 0);
}

TEST_CASE("where no single change makes a recipe fit, a suggestion makes several") {
  // Its states need ZeRO, and the activations of four long sequences something else besides.
  const std::vector<Override> large{"model.hidden_size=8192", "model.heads=64", "model.max_sequence_length=4096",
                                    "batch.global=64",        "batch.micro=4",  "kernels.attention=flash",
                                    "precision.compute=bf16"};
  CHECK(check_promises(small_gpt, large) > 0);
  const Recipe recipe = small_gpt(large);
  const auto suggestions = suggest(make_plan(recipe, profile_of(recipe)), profile_of(recipe));
  REQUIRE_FALSE(suggestions.empty());
  CHECK_THAT(suggestions.front().change, Catch::Contains("parallel.zero_stage=") &&
                                             (Catch::Contains("parallel.tensor=") || Catch::Contains("batch.micro=")));
}

TEST_CASE("where no layout makes a recipe fit, states that are left to the host may") {
  const std::vector<Override> large = {"cluster.profile=h100-sxm-80gb",
                                       "cluster.devices_per_node=1",
                                       "precision.compute=bf16",
                                       "precision.gradients=bf16",
                                       "model.layers=40",
                                       "model.hidden_size=5120",
                                       "model.heads=40",
                                       "batch.global=1",
                                       "batch.micro=1",
                                       "launch.ranks=1"};
  const Recipe recipe = small_gpt(large);
  const ClusterProfile cluster = profile_of(recipe);
  const Plan plan = make_plan(recipe, cluster);
  REQUIRE_FALSE(plan.report.fits);
  CHECK(suggest(plan, cluster).empty());
  const std::vector<PlanSuggestion> suggestions = suggest_host(plan, cluster);
  REQUIRE_FALSE(suggestions.empty());
  for (const PlanSuggestion& suggestion : suggestions) {
    INFO(suggestion.change);
    std::vector<Override> all = large;
    for (const Override& word : words_of(suggestion.change)) all.push_back(word);
    const PlanReport report = make_plan(small_gpt(all), cluster).report;
    CHECK(report.fits);
    CHECK(report.step.seconds == suggestion.step_seconds);
    CHECK(peak_bytes(report) == suggestion.peak_bytes);
  }
}

TEST_CASE("more tensor ranks change the defaults that follow from them, including those of experts") {
  const auto read = [](const std::vector<Override>& overrides) { return small_gpt(overrides); };
  CHECK(check_promises(read, {"model.hidden_size=5120", "model.heads=40", "model.moe={\"experts\": 4, \"every\": 2}"}) >
        0);
}

TEST_CASE("ranks that split experts are tried with different ones, and the other way round") {
  const Recipe recipe =
      small_gpt({"model.moe={\"experts\": 8}", "parallel.tensor=4", "parallel.expert=2", "parallel.data=2"});
  std::set<std::pair<std::int64_t, std::int64_t>> tried;
  for (const Recipe& other : neighbours(recipe, make_plan(recipe, profile_of(recipe)).report.mesh))
    tried.emplace(other.parallel.expert, expert_tensor(other.parallel));
  for (const auto& degrees : {std::pair{8, 1}, {4, 2}, {1, 8}, {2, 2}, {1, 4}}) CHECK(tried.count(degrees) == 1);
}

}  // namespace
}  // namespace llmtrain::test
