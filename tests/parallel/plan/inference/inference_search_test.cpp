// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/inference_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "parallel/plan/inference/report/inference_report.h"
#include "tests/parallel/plan/inference/inference_case.h"

namespace llmtrain {
namespace {

using namespace inference_case;

struct Case {
  Recipe recipe = bundled("models/llama3-70b");
  ClusterProfile profile = profile_of(recipe);
  InferencePlanner planner{recipe, profile};
};

TEST_CASE("the front holds the plans that none is better than", "[inference_search]") {
  const Case llama;
  const InferenceSearch search = search_inference(llama.planner, request_of("prompt=512,weights=fp8"), 16, 64);
  const auto dominates = [](const InferencePlan& one, const InferencePlan& other) {
    return one.per_token_seconds <= other.per_token_seconds && token_cost(one) <= token_cost(other) &&
           (one.per_token_seconds < other.per_token_seconds || token_cost(one) < token_cost(other));
  };
  std::vector<std::size_t> expected;
  for (std::size_t index = 0; index < search.plans.size(); ++index)
    if (std::ranges::none_of(search.plans, [&](const auto& other) { return dominates(other, search.plans[index]); }))
      expected.push_back(index);
  std::vector<std::size_t> front = search.front;
  std::ranges::sort(front);
  CHECK(front == expected);
  CHECK(front.size() > 3);
  CHECK(std::ranges::all_of(search.plans, [](const InferencePlan& plan) { return plan.fits; }));
  // Ordered from the fastest to the cheapest.
  for (std::size_t i = 1; i < search.front.size(); ++i) {
    CHECK(search.plans[search.front[i - 1]].per_token_seconds < search.plans[search.front[i]].per_token_seconds);
    CHECK(token_cost(search.plans[search.front[i - 1]]) > token_cost(search.plans[search.front[i]]));
  }
}

TEST_CASE("every plan of a search is the one that its numbers alone have", "[inference_search]") {
  const Case llama;
  const InferenceSearch search = search_inference(llama.planner, request_of("prompt=512"), 8, 8);
  for (const InferencePlan& plan : search.plans) {
    const InferencePlan alone = llama.planner.plan(request_of("prompt=512,devices=" + std::to_string(plan.devices) +
                                                              ",batch=" + std::to_string(plan.request.batch)));
    CHECK(alone.request_seconds == plan.request_seconds);
    CHECK(alone.decode.split == plan.decode.split);
  }
}

TEST_CASE("a target asks for the fewest devices", "[inference_search]") {
  const Case llama;
  const auto plans = plans_by_devices(llama.planner, request_of("batch=8,prompt=512,weights=fp8"), 8);
  REQUIRE(plans.size() == 4);
  const double needed = plans[2].per_token_seconds;
  const auto count = [&](const InferenceTarget& target) {
    const auto found = std::ranges::find_if(plans, [&](const auto& plan) { return meets(plan, target); });
    return found == plans.end() ? 0 : found->devices;
  };
  CHECK(count({.per_token_seconds = needed}) == 4);
  CHECK(count({.per_token_seconds = needed * 0.999}) == 8);
  CHECK(count({.per_token_seconds = 1e-6}) == 0);
  CHECK(count({.tokens_per_second = plans[1].tokens_per_second}) == 2);
  CHECK(count({.first_token_seconds = plans[1].first_token_seconds}) == 2);
  CHECK(count({}) == 1);
  // What does not fit meets nothing.
  const auto whole = plans_by_devices(llama.planner, request_of("batch=8,prompt=512"), 2);
  CHECK_FALSE(meets(whole[0], {}));
  CHECK(meets(whole[1], {}));
  CHECK(target_json(plans, {.per_token_seconds = needed})["answer"] == 2);
}

TEST_CASE("pages and tables hold the front", "[inference_search]") {
  const Case llama;
  const InferenceSearch search = search_inference(llama.planner, request_of("prompt=512,weights=fp8"), 4, 4);
  CHECK(search_json(search)["front"].size() == search.front.size());
  CHECK(search_json(search)["plans"][0]["decode"]["split"]["weights"] == "1d");
  const std::string page = search_html(search);
  CHECK(page.find("<svg") != std::string::npos);
  CHECK(page.find("2 devices") != std::string::npos);
  CHECK(search_text(search, {}).find("plans that fit") != std::string::npos);
}

}  // namespace
}  // namespace llmtrain
