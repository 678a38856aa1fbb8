// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/explanation.h"

#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/parallel/plan/report/sample_report.h"

namespace llmtrain {
namespace {

using Names = std::vector<std::string>;

Names names(const std::vector<KeyDifference>& keys) {
  Names found;
  for (const KeyDifference& key : keys) found.push_back(key.key);
  return found;
}

std::vector<KeyDifference> keys_named(const Names& keys) {
  std::vector<KeyDifference> found;
  for (const std::string& key : keys) found.push_back({key, 1, 2});
  return found;
}

// The sample with its step `faster` times as fast, which the compute's time makes, and so many GiB more.
PlanReport changed_sample(double faster, double more_gib) {
  PlanReport report = test::sample_report();
  const double seconds = report.step.seconds / faster;
  report.step.compute_seconds += seconds - report.step.seconds;
  report.step.seconds = seconds;
  report.throughput.tokens_per_second_per_device *= faster;
  report.ranks[0].peak_bytes += more_gib * (1U << 30U);
  return report;
}

// "recompute" and "schedule" change the speed, "micro" does once recomputing ends, "tensor" and "data" divide the same
// devices, "master" is of the memory alone, "device" is never taken.
ChangedPlan toy_plan(const std::vector<KeyDifference>& keys) {
  const Names list = names(keys);
  const std::set<std::string> set(list.begin(), list.end());
  const auto has = [&](const std::string& key) { return set.contains(key); };
  if (has("device") || has("tensor") != has("data")) return {std::nullopt, "refused"};
  double faster = 1, more = 0;
  if (has("recompute")) faster *= 1.25;
  if (has("schedule")) faster *= 0.9;
  if (has("micro") && has("recompute")) faster *= 1.1;
  if (has("tensor")) faster *= 1.05;
  if (has("master")) more += 4;
  return {changed_sample(faster, more), ""};
}

Explanation toy_explanation() {
  Explanation explanation;
  explanation.recipe = test::sample_report();
  explanation.source = "runs/other";
  explanation.source_plan = changed_sample(1.25 * 0.9 * 1.1 * 1.05 * 1.02, 4);
  explanation.measured = explanation.source_plan.throughput.tokens_per_second_per_device * 1.04;
  explain_changes(explanation,
                  keys_named({"seed", "schedule", "device", "tensor", "micro", "master", "recompute", "data"}),
                  toy_plan);
  return explanation;
}

}  // namespace

TEST_CASE("A recipe becomes its source by the key that changes most, again and again") {
  const Explanation explanation = toy_explanation();
  std::vector<Names> taken;
  for (const ExplainedChange& change : explanation.changes) taken.push_back(names(change.keys));
  CHECK(taken == std::vector<Names>{{"recompute"}, {"schedule"}, {"master"}, {"micro"}, {"tensor", "data"}});
  CHECK(names(explanation.refused) == Names{"device"});
  CHECK(names(explanation.without_effect) == Names{"seed"});
  const double before = explanation.recipe.throughput.tokens_per_second_per_device;
  CHECK(explanation.changes.back().plan.throughput.tokens_per_second_per_device ==
        Approx(1.25 * 0.9 * 1.1 * 1.05 * before));
  CHECK(explanation.expected().value() == Approx(1.04 * before));
}

TEST_CASE("Refused keys take along only those without effect that they need") {
  const auto plan_with = [](const std::vector<KeyDifference>& keys) -> ChangedPlan {
    const Names list = names(keys);
    const std::set<std::string> set(list.begin(), list.end());
    if (set.contains("tensor") && !set.contains("nodes")) return {std::nullopt, "refused"};
    return {changed_sample(set.contains("tensor") ? 1.5 : 1, 0), ""};
  };
  Explanation explanation;
  explanation.recipe = test::sample_report();
  explain_changes(explanation, keys_named({"seed", "nodes", "tensor", "steps"}), plan_with);
  REQUIRE(explanation.changes.size() == 1);
  CHECK(names(explanation.changes[0].keys) == Names{"nodes", "tensor"});
  CHECK(names(explanation.without_effect) == Names{"seed", "steps"});
  CHECK(explanation.refused.empty());
}

TEST_CASE("An explanation says what each key changes, in any width") {
  const Explanation explanation = toy_explanation();
  for (const std::size_t width : {60, 80, 100, 160}) {
    std::istringstream lines(explanation_text(explanation, {TextColour::off, width}));
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(columns(line) <= width);
    }
  }
  const std::string text = explanation_text(explanation, {});
  CHECK_THAT(text,
             Catch::Contains("  recompute 1 → 2                                     154      +25.0 %     60.0 GiB\n"
                             "      compute -20.0 % of the recipe's step\n"));
  CHECK_THAT(text, Catch::Contains("  tensor 1 → 2, data 1 → 2"));
  CHECK_THAT(text, Catch::Contains("makes the source another +2.0 %"));
  CHECK_THAT(text, Catch::Contains("Refused with the recipe's other keys: device.\n"));
  CHECK_THAT(text, Catch::Contains("Without effect on either: seed.\n"));
  CHECK_THAT(text, Catch::Contains("measured 1.04 of what is planned for it"));
}

TEST_CASE("Recipes that do not differ have nothing but their speeds") {
  Explanation explanation;
  explanation.recipe = explanation.source_plan = test::sample_report();
  explanation.source = "runs/same";
  explain_changes(explanation, {}, toy_plan);
  CHECK(explanation.changes.empty());
  CHECK_FALSE(explanation.expected());
  CHECK_THAT(explanation_text(explanation, {}), !Catch::Contains("measured") && !Catch::Contains("another"));
  const Json json = Json::parse(explanation_json(explanation));
  CHECK(json["changes"].empty());
  CHECK(json["source"]["measured_tokens_per_second_per_device"].is_null());
}

TEST_CASE("The parts of a change sum to its speed") {
  const Json json = Json::parse(explanation_json(toy_explanation()));
  for (const Json& change : json["changes"]) {
    double seconds = 0;
    for (const auto& [name, part] : change["parts"].items()) seconds += part.get<double>();
    CHECK(1 / seconds == Approx(change["tokens_per_second_per_device"].get<double>()));
  }
}

}  // namespace llmtrain
