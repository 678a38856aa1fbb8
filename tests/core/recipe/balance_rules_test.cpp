// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <string>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

struct Case {
  std::int64_t layers = 1;
  std::int64_t ranks = 1;
  std::int64_t loops = 1;
  BalanceRecipe balance;
};

const BalanceRecipe by_layers{.kind = BalanceKind::layers, .layers_per_stage = {}};
const BalanceRecipe by_blocks{.kind = BalanceKind::blocks, .layers_per_stage = {}};
BalanceRecipe by_list(std::vector<std::int64_t> list) {
  return {.kind = BalanceKind::list, .layers_per_stage = std::move(list)};
}

// The errors of the pipeline rules for the case.
std::string failure(const Case& c) {
  Recipe recipe;
  recipe.model.layers = c.layers;
  recipe.parallel.pipeline = c.ranks;
  recipe.pipeline.loops = c.loops;
  recipe.pipeline.balance = c.balance;
  const Document unwritten;
  Problems problems(unwritten);
  check_rules(recipe, {}, problems, pipeline_rules());
  return problems.empty() ? "no error" : problems.report("");
}

TEST_CASE("layers need not divide, but every stage needs something to run") {
  CHECK(failure({10, 2, 2, by_layers}) == "no error");
  CHECK(failure({61, 16, 1, by_layers}) == "no error");
  CHECK(failure({126, 16, 4, by_layers}) == "no error");
  CHECK(failure({12, 2, 2, by_blocks}) == "no error");
  CHECK(failure({4, 3, 2, by_blocks}) == "no error");
  CHECK(failure({1, 1, 2, by_layers}) ==
        "/pipeline/balance: \"layers\" cannot split 1 layer over the 2 stages (pipeline 1 × loops 2); "
        "set /pipeline/loops to 1 or /model/layers to 2");
  CHECK(failure({4, 3, 3, by_blocks}) ==
        "/pipeline/balance: \"blocks\" cannot split 4 layers with embedding and head over the 9 stages (pipeline 3 × "
        "loops 3); set /pipeline/loops to 2 or /model/layers to 7");
}

TEST_CASE("more stages than blocks need fewer ranks or loops") {
  CHECK_THAT(failure({4, 1, 7, by_blocks}), Catch::EndsWith("; set /pipeline/loops to 6 or /model/layers to 5"));
  CHECK_THAT(failure({4, 2, 10'000, by_layers}), Catch::EndsWith("; set /pipeline/loops to 2"));
  CHECK_THAT(failure({4, 1, 10'000, by_layers}),
             Catch::EndsWith("; set /pipeline/loops to 4 or /model/layers to 10000"));
  CHECK_THAT(failure({4, 7, 1, by_layers}),
             Catch::EndsWith("; set /parallel/pipeline to 4 and /pipeline/loops to 1 or /model/layers to 7"));
  CHECK_THAT(failure({4, 5, 3, by_blocks}), Catch::EndsWith("; set /pipeline/loops to 1 or /model/layers to 13"));
  CHECK_THAT(failure({4, 1 << 20, 10'000, by_layers}),
             Catch::EndsWith("; set /parallel/pipeline to 4 and /pipeline/loops to 1"));
}

TEST_CASE("a list must have one entry per stage, no empty stage, and the right sum") {
  CHECK(failure({4, 2, 1, by_list({4})}) ==
        "/pipeline/balance: the list has 1 entry; give one for each of the 2 stages (pipeline 2 × loops 1)");
  CHECK_THAT(failure({4, 2, 1, by_list({})}), Catch::Contains("has 0 entries"));
  CHECK_THAT(failure({4, 3, 3, by_list({})}), Catch::Contains("has 0 entries"));
  CHECK(failure({4, 3, 1, by_list({2, 0, 2})}) ==
        "/pipeline/balance: stage 1 has 0 layers; at least 1, or 0 for the first and the last stage, which hold the "
        "embedding and the head");
  CHECK_THAT(failure({4, 4, 1, by_list({0, 4, 0, 0})}), Catch::Contains("stage 2 has 0 layers"));
  CHECK(failure({4, 2, 1, by_list({2, 3})}) ==
        "/pipeline/balance: the list [2, 3] holds 5 layers; must add up to model.layers (4)");
  CHECK_THAT(failure({4, 2, 1, by_list({1, 2})}), Catch::Contains("holds 3 layers"));
  CHECK_THAT(failure({4, 2, 1, by_list({0, 0})}), Catch::Contains("holds 0 layers"));
  CHECK(failure({4, 3, 1, by_list({0, 4, 0})}) == "no error");
}

// The number after `key` in the message, or `otherwise`.
std::int64_t advice(const std::string& message, const std::string& key, std::int64_t otherwise) {
  const auto place = message.find(key + " to ");
  return place == std::string::npos ? otherwise : std::stoll(message.substr(place + key.size() + 4));
}

TEST_CASE("advice on too many stages") {
  rc::prop("every proposal is legal, and no smaller change is", [] {
    Case c{*rc::gen::inRange(1, 40), *rc::gen::inRange(1, 9), *rc::gen::inRange(1, 9), {}};
    c.balance = *rc::gen::arbitrary<bool>() ? by_blocks : by_layers;
    const std::string message = failure(c);
    if (message == "no error") return;
    const std::int64_t ranks = advice(message, "/parallel/pipeline", c.ranks);
    const std::int64_t loops = advice(message, "/pipeline/loops", c.loops);
    RC_ASSERT(failure({c.layers, ranks, loops, c.balance}) == "no error");
    RC_ASSERT(failure({c.layers, ranks, loops + 1, c.balance}) != "no error");
    const std::int64_t layers = advice(message, "/model/layers", 0);
    RC_ASSERT(layers > c.layers);
    RC_ASSERT(failure({layers, c.ranks, c.loops, c.balance}) == "no error");
    RC_ASSERT(failure({layers - 1, c.ranks, c.loops, c.balance}) != "no error");
  });
}

}  // namespace
}  // namespace llmtrain
