// SPDX-License-Identifier: Apache-2.0
// What is planned where a recipe leaves the exchange of experts' rows open.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/plan/planner/planner.h"
#include "tests/parallel/plan/planner/planner_case.h"

namespace llmtrain::test {
namespace {

// 16 experts over two nodes of eight.
Recipe moe_on_two_nodes(const std::vector<Override>& overrides) {
  std::vector<Override> all{"model.moe={\"experts\": 16, \"top_k\": 2, \"ffn_hidden_size\": 2048}",
                            "cluster.nodes=2",
                            "cluster.profile=a100-80gb",
                            "precision.compute=bf16",
                            "batch.global=64",
                            "parallel.expert=16"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return small_gpt(all);
}

PlanReport report_of(const Recipe& recipe) { return make_plan(recipe, profile_of(recipe)).report; }

ExchangeMethods exchange_of(const Recipe& recipe) { return lay_out(recipe, profile_of(recipe))->partition().exchange; }

const std::vector<Override> open{"parallel.expert_overlap=auto", "parallel.expert_all_to_all=auto"};

std::vector<Override> fixed(std::int64_t parts, const std::string& all_to_all) {
  return {"parallel.expert_overlap=" + std::to_string(parts), "parallel.expert_all_to_all=" + all_to_all};
}

}  // namespace

TEST_CASE("an open exchange is planned as fast as the fastest one that a recipe can ask for") {
  for (const std::vector<Override>& batch :
       {std::vector<Override>{"batch.micro=1", "batch.sequence_length=128"},
        {"batch.micro=1"},
        {"batch.micro=4"},
        {"batch.micro=4", "model.hidden_size=4096", "model.heads=32"},
        {"batch.micro=2", "memory.recompute=full", "parallel.tensor=2", "parallel.expert=8"}}) {
    const auto seconds = [&](const std::vector<Override>& exchange) {
      std::vector<Override> overrides = batch;
      overrides.insert(overrides.end(), exchange.begin(), exchange.end());
      return report_of(moe_on_two_nodes(overrides)).step.seconds;
    };
    double fastest = seconds(fixed(1, "linear"));
    for (const std::int64_t parts : {1, 2, 4, 8})
      for (const char* all_to_all : {"linear", "hierarchical"})
        fastest = std::min(fastest, seconds(fixed(parts, all_to_all)));
    // Numbers of rows go with the most for an expert.
    CHECK(seconds(open) == Approx(fastest).epsilon(1e-4));
  }
}

TEST_CASE(
    "buckets with more rows than another have as many parts or more, and never exchange over one node in two steps") {
  const Recipe recipe = moe_on_two_nodes({"batch.micro=4", open.front(), open.back()});
  const ExchangeMethods exchange = exchange_of(recipe);
  REQUIRE(exchange.of_buckets.size() > 4);
  std::int64_t parts = 1;
  for (const std::vector<ExchangeMethod>& methods : exchange.of_buckets) {
    CHECK(methods.size() == 8);
    CHECK(methods.front().parts >= parts);
    parts = methods.front().parts;
  }
  const Recipe alone = moe_on_two_nodes({"parallel.expert=8", open.front(), open.back()});
  const ExchangeMethods in_a_node = exchange_of(alone);
  for (const std::vector<ExchangeMethod>& methods : in_a_node.of_buckets) {
    CHECK(methods.size() == 4);
    for (const ExchangeMethod& method : methods) CHECK((method.all_to_all == AllToAll::linear));
  }
}

TEST_CASE("a recipe that asks for an exchange leaves nothing open, nor does one rank with all experts") {
  const Recipe asked = moe_on_two_nodes(fixed(4, "hierarchical"));
  const ExchangeMethods exchange = exchange_of(asked);
  CHECK_FALSE(exchange.are_open());
  CHECK((exchange.planned == ExchangeMethod{4, AllToAll::hierarchical}));
  const Recipe alone = moe_on_two_nodes({"parallel.expert=1", open.front(), open.back()});
  CHECK_FALSE(exchange_of(alone).are_open());
}

TEST_CASE("hierarchical exchanges that relay nothing are warned of") {
  const auto is_warned = [](const std::vector<Override>& overrides) {
    return std::ranges::any_of(report_of(moe_on_two_nodes(overrides)).warnings, [](const std::string& warning) {
      return warning.starts_with("parallel.expert_all_to_all: ");
    });
  };
  const Override hierarchical = "parallel.expert_all_to_all=hierarchical";
  CHECK_FALSE(is_warned({hierarchical}));
  // In one node, and one in each node.
  CHECK(is_warned({hierarchical, "parallel.expert=8"}));
  CHECK(is_warned({hierarchical, "parallel.expert=2", "parallel.tensor=8"}));
  CHECK_FALSE(is_warned({"parallel.expert=8"}));
}

TEST_CASE("memory is planned for whatever exchange a run may try") {
  // Wide rows and narrow experts, so that the exchange is where most memory is used.
  const Recipe recipe = parse_recipe(
      R"({"model": {"architecture": "gpt2", "layers": 2, "hidden_size": 256, "heads": 8, "vocab_size": 512,
        "max_sequence_length": 512, "moe": {"experts": 16, "top_k": 4, "ffn_hidden_size": 64}},
        "batch": {"global": 128, "micro": 8}, "training": {"steps": 1}, "parallel": {"expert": 16},
        "cluster": {"profile": "cpu", "nodes": 2, "devices_per_node": 8, "device": "cpu"}})",
      "test", ".");
  const auto report = [&](std::optional<std::int64_t> parts, AllToAll all_to_all) {
    Recipe changed = recipe;
    changed.parallel.expert_overlap = parts;
    changed.parallel.expert_all_to_all = all_to_all;
    return report_of(changed);
  };
  double most = 0, most_linear = 0;
  PlanReport fastest = report(1, AllToAll::linear);
  for (const std::int64_t parts : {1, 2, 4, 8}) {
    PlanReport linear = report(parts, AllToAll::linear);
    most_linear = std::max(most_linear, peak_bytes(linear));
    most = std::max({most, peak_bytes(linear), peak_bytes(report(parts, AllToAll::hierarchical))});
    if (linear.step.seconds < fastest.step.seconds) fastest = std::move(linear);
  }
  CHECK(peak_bytes(fastest) < most_linear);
  CHECK(most_linear < most);
  CHECK(peak_bytes(report(std::nullopt, AllToAll::linear)) == Approx(most_linear).epsilon(1e-6));
  CHECK(peak_bytes(report(std::nullopt, AllToAll::automatic)) == Approx(most).epsilon(1e-6));
}

}  // namespace llmtrain::test
