// SPDX-License-Identifier: Apache-2.0
// precision.fp8_products "auto": the products that a plan leaves out of FP8, and what follows from it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "parallel/plan/planner/fp8_payoff.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/report/report.h"
#include "parallel/plan/search/search.h"
#include "planner_case.h"

namespace llmtrain::test {
namespace {

// Its widths are large enough for FP8 to pay in the network alone, casts included.
Recipe following_plan(const std::vector<Override>& overrides = {}) {
  std::vector<Override> all{"model.hidden_size=2048", "precision.compute=bf16", "precision.fp8_level=O1",
                            "precision.fp8_products=auto"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return small_gpt(all);
}

// Products and casts take the time of their FLOPs and bytes alone.
ClusterProfile proportional(double flops, double bandwidth) {
  ClusterProfile cluster = profile("h100-sxm-80gb");
  cluster.matrix = {.peak_fraction = 1, .inner_half = 0, .outer_half = 0, .fp8_peak_fraction = 1};
  cluster.memory = {.fraction = 1, .half_bytes = 0};
  cluster.device.kernel_seconds = 0;
  cluster.device.peak_flops.bf16 = flops;
  cluster.device.peak_flops.fp8 = 2 * flops;
  cluster.device.memory_bandwidth = bandwidth;
  cluster.host.operator_seconds = 0;
  cluster.program.traffic.cast = 1;
  return cluster;
}

struct Speed {
  double flops, bandwidth;

  double product(double rows, double columns, double inner, double operand_bytes) const {
    const double bytes = operand_bytes * inner * (rows + columns) + 2 * rows * columns;
    return std::max(2 * rows * columns * inner * operand_bytes / (2 * flops), bytes / bandwidth);
  }
  // Forward, and the backward's for the input and for the weight.
  double products(const PlannedProduct& x, double operand_bytes) const {
    return product(x.rows, x.columns, x.inner, operand_bytes) + product(x.rows, x.inner, x.columns, operand_bytes) +
           product(x.columns, x.inner, x.rows, operand_bytes);
  }
  // Both operands are cast, the output's gradient and the weight's: each element is read and written twice.
  double casts(const PlannedProduct& x) const {
    return 4 * (x.rows * x.inner + 2 * x.inner * x.columns + x.rows * x.columns) / bandwidth;
  }
};

std::vector<std::string> names_out_of_fp8(const PlanReport& report) {
  std::vector<std::string> names;
  for (const PlannedProduct& product : report.fp8_products)
    if (!product.uses_fp8) names.push_back(product.name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("FP8 is used where the time that it saves is more than that of its casts") {
  const Recipe recipe = following_plan();
  bool some_pay = false, some_do_not = false;
  for (const double flops : {1e12, 3.2e14, 3.4e14, 4e14, 1e15, 1e17}) {
    const Speed speed{flops, 2e12};
    const PlanReport report = make_plan(recipe, proportional(flops, 2e12)).report;
    REQUIRE(report.fp8_products.size() == 4);
    for (const PlannedProduct& product : report.fp8_products) {
      INFO(product.name << " at " << flops);
      CHECK(product.layers == recipe.model.layers);
      CHECK(product.seconds == Approx(speed.products(product, 2)));
      CHECK(product.fp8_seconds == Approx(speed.products(product, 1) + speed.casts(product)));
      CHECK(product.uses_fp8 == (product.fp8_seconds < product.seconds));
      (product.uses_fp8 ? some_pay : some_do_not) = true;
    }
  }
  CHECK((some_pay && some_do_not));
}

TEST_CASE("a plan that leaves products out of FP8 is that of a recipe which names them") {
  // Speeds at which some products gain.
  const std::vector<std::pair<double, std::vector<Override>>> cases{
      {3.2e14, {}},
      {3.6e14, {"precision.fp8_level=O3", "parallel.tensor=2", "parallel.data=4", "memory.recompute=full"}},
      {3.2e14, {"precision.fp8_level=O2", "parallel.zero_stage=1", "precision.high_precision.first_layers=1"}}};
  for (const auto& [flops, overrides] : cases) {
    const ClusterProfile cluster = proportional(flops, 2e12);
    const Recipe recipe = following_plan(overrides);
    const Recipe settled = settle_fp8_products(recipe, cluster, devices_per_node(recipe, cluster));
    CHECK(settled.precision.fp8_products == Fp8Products::all);
    REQUIRE_FALSE(settled.precision.high_precision.parameters.empty());
    const Plan followed = make_plan(recipe, cluster), named = make_plan(settled, cluster);
    CHECK(std::ranges::any_of(followed.report.fp8_products, &PlannedProduct::uses_fp8));
    CHECK(followed.layout->recipe() == recipe);
    nlohmann::ordered_json left = to_json(followed.report), right = to_json(named.report);
    CHECK(left["fp8_products"] == right["fp8_products"]);
    left.erase("recipe"), right.erase("recipe");
    CHECK(left == right);
    // What is settled stays as it is, on any cluster.
    CHECK(settle_fp8_products(settled, profile("h100-sxm-80gb"), 8) == settled);
  }
}

TEST_CASE("products that leave FP8 are named for all layers, after what the recipe names") {
  const Names all{"layers.*.attention.query.weight", "layers.*.attention.output.weight", "layers.*.ffn.up.weight",
                  "layers.*.ffn.down.weight"};
  const ClusterProfile slow = proportional(1e17, 2e12);
  CHECK(settle_fp8_products(following_plan(), slow, 8).precision.high_precision.parameters == all);
  const Recipe some = following_plan({R"(precision.high_precision.parameters=["layers.1.*"])"});
  Names after{"layers.1.*"};
  after.insert(after.end(), all.begin(), all.end());
  CHECK(settle_fp8_products(some, slow, 8).precision.high_precision.parameters == after);
  CHECK(settle_fp8_products(following_plan(), proportional(1e12, 2e12), 8).precision.high_precision.parameters.empty());
}

TEST_CASE("without FP8 products nothing is in FP8, and the plan says so") {
  const PlanReport report = make_plan(following_plan(), profile("a100-80gb")).report;
  CHECK(names_out_of_fp8(report).size() == 4);
  CHECK(std::ranges::any_of(report.warnings, [](const std::string& warning) {
    return warning.starts_with("precision.fp8_level: no layer uses FP8: ") && warning.ends_with(" leave all in bf16");
  }));
  CHECK(report_text(report, {}).find("FP8: 0 of 16 products of layers; in bf16 attention.query_key_value") !=
        std::string::npos);
}

TEST_CASE("what the key does not concern says nothing of products") {
  const ClusterProfile cluster = profile("h100-sxm-80gb");
  for (const char* other : {"precision.fp8_level=off", "precision.fp8_products=all"}) {
    const PlanReport report = make_plan(following_plan({other}), cluster).report;
    CHECK(report.fp8_products.empty());
    CHECK_FALSE(to_json(report).contains("fp8_products"));
  }
}

// A layout decides how large its ranks' products are.
TEST_CASE("suggestions and searches settle the products of each layout anew") {
  const ClusterProfile cluster = proportional(3.2e14, 2e12);
  const SearchResult result = search_layouts(following_plan({"batch.global=16"}), cluster);
  REQUIRE_FALSE(result.front.empty());
  for (const SearchCandidate& candidate : result.front) {
    CHECK(candidate.recipe.precision.fp8_products == Fp8Products::automatic);
    const PlanReport report = make_plan(candidate.recipe, cluster).report;
    CHECK(report.step.seconds == candidate.step_seconds);
  }
}

}  // namespace llmtrain::test
