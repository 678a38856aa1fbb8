// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/recipe/rules/rules.h"
#include "tests/core/recipe/bad_combinations.h"
#include "tests/core/recipe/good_recipe.h"

namespace llmtrain {
namespace {

using test::Combination;
using test::complaints;

// The errors for the small recipe with the patch, from the reader or, for a recipe that it accepts, from the planner.
std::vector<std::string> complaints_of(const Combination& combination) {
  auto json = test::small_recipe();
  json.merge_patch(Json::parse(combination.patch));
  const auto lines = complaints(json.dump());
  if (combination.devices_per_node == 0 || !lines.empty()) return lines;
  const auto recipe = test::parse(json);
  return test::lines_thrown_by([&] { require_rules(recipe, world_of(recipe, combination.devices_per_node)); });
}

void check(const std::vector<Combination>& combinations) {
  for (const auto& combination : combinations) {
    const auto lines = complaints_of(combination);
    CAPTURE(combination.patch, lines);
    if (combination.pointer.empty()) {
      CHECK(lines.empty());
      continue;
    }
    REQUIRE(lines.size() == 1);
    const bool is_read = lines[0].starts_with("r.json: ");
    CHECK_THAT(lines[0], Catch::StartsWith((is_read ? "r.json: " : "") + combination.pointer + ": "));
    for (const auto& part : combination.words) CHECK_THAT(lines[0], Catch::Contains(part));
  }
}

TEST_CASE("Shapes of the model must fit each other", "[recipe]") { check(test::model_combinations()); }

TEST_CASE("Options of a Slurm job fit their lines and the script", "[recipe][slurm]") {
  check(test::slurm_combinations());
  check(test::slurm_start_combinations());
}

TEST_CASE("cuDNN's attention is refused where it lacks something", "[recipe]") {
  check(test::attention_combinations());
  check(test::graph_combinations());
}

TEST_CASE("Latent attention has heads of its own sizes, and positions", "[recipe]") {
  check(test::latent_attention_combinations());
}

TEST_CASE("Layers of several kinds have sizes, and ranks split their states' heads alone", "[recipe]") {
  check(test::hybrid_combinations());
}

TEST_CASE("Encoders have what their family has, on ranks with whole layers", "[recipe]") {
  check(test::encoder_combinations());
}

TEST_CASE("Models of images read images of the classes that they tell, and no texts", "[recipe]") {
  check(test::image_combinations());
  check(test::resnet_combinations());
}

TEST_CASE("Global layers between local ones must be among the layers", "[recipe]") {
  check(test::window_combinations());
}

TEST_CASE("Halves of a layer that read the same input are dense and not normed apart", "[recipe]") {
  check(test::residual_combinations());
}

TEST_CASE("Layers that predict further tokens stand behind those that other keys count", "[recipe]") {
  check(test::prediction_combinations());
}

TEST_CASE("Layers with experts and their routers' choices must be possible", "[recipe]") {
  check(test::router_combinations());
}

TEST_CASE("Schedules of short sequences and kept tokens must fit the batch and the layout", "[recipe]") {
  check(test::curriculum_combinations());
}

TEST_CASE("All sizes of a batch that grows must fit the layout", "[recipe]") { check(test::batch_combinations()); }

TEST_CASE("Batch and schedule of the learning rate must fit each other", "[recipe]") {
  check(test::training_combinations());
  check(test::precision_combinations());
  check(test::course_combinations());
}

TEST_CASE("Muon needs matrices to train, and wide states where the model computes", "[recipe]") {
  check(test::optimizer_combinations());
}

TEST_CASE("Documents that share a sequence need a mark and no dropout", "[recipe]") {
  check(test::document_combinations());
  check(test::masking_combinations());
  check(test::label_combinations());
  check(test::span_combinations());
  check(test::pair_combinations());
}

TEST_CASE("Degrees, nodes and ranks must agree", "[recipe]") {
  check(test::world_combinations());
  check(test::node_combinations());
}

TEST_CASE("Ranks must divide what they split", "[recipe]") {
  check(test::layout_combinations());
  check(test::expert_combinations());
  check(test::slice_combinations());
}

TEST_CASE("Layers must be divided over the stages as the balance requires", "[recipe]") {
  check(test::pipeline_combinations());
}

TEST_CASE("An update in the backward knows nothing of other stages' gradients", "[recipe]") {
  check(test::update_combinations());
}

TEST_CASE("What is offloaded has a place, and nothing else that would need it", "[recipe]") {
  check(test::offload_combinations());
  check(test::policy_combinations());
}

TEST_CASE("Products of sizes that overflow are refused", "[recipe]") { check(test::size_combinations()); }

TEST_CASE("An unknown key next to the one that was meant hides no error", "[recipe]") {
  CHECK(complaints_of({R"({"modle": {}, "model": {"kv_heads": 3}})", "", {}}).size() == 2);
}

TEST_CASE("Consequences of a wrong value are not reported again", "[recipe]") {
  check({
      {R"({"model": {"heads": 0, "kv_heads": 3}})", "/model/heads", {}},
      {R"({"model": {"hidden_size": -1, "position": "rope"}})", "/model/hidden_size", {}},
      {R"({"batch": {"micro": 0}, "parallel": {"data": 3}})", "/batch/micro", {}},
      {R"({"model": {"layers": 0}, "parallel": {"pipeline": 3}})", "/model/layers", {}},
      {R"({"model": {"head_dims": 10, "heads": 6}})", "/model/head_dims", {}},
      {R"({"model": 5})", "/model", {}},
      {R"({"model": {"moe": 5}, "parallel": {"expert": 2}})", "/model/moe", {}},
  });
}

}  // namespace
}  // namespace llmtrain
