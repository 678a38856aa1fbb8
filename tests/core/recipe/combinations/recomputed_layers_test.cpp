// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/recipe/good_recipe.h"

namespace llmtrain {
namespace {

using test::Json;
using test::parse;
using test::small_recipe;

Recipe recipe_with(const std::string& recompute) {
  auto json = small_recipe();
  json["model"]["layers"] = 8;
  json["memory"]["recompute"] = Json::parse(recompute);
  return parse(json);
}

TEST_CASE("layers are listed by what they recompute", "[recipe]") {
  using enum Recompute;
  CHECK(recipe_with(R"("full")").memory.recompute_of_layers.empty());
  const MemoryRecipe memory = recipe_with(R"({"full": ["1-2", 5], "selective": [0], "computation": [4]})").memory;
  CHECK(memory.recompute == none);
  CHECK(memory.recompute_of_layers == std::vector<Recompute>{selective, full, full, none, computation, full});
}

TEST_CASE("a list of layers is written as it reads back", "[recipe]") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"full": [3, "1-2", 0]})", R"({"full":["0-3"]})"},
      {R"({"selective": ["4-7"], "full": [1]})", R"({"full":[1],"selective":["4-7"]})"},
      {R"({"none": ["0-3"]})", R"({"none":["0-3"]})"},
      {R"({"full": [0], "none": [2]})", R"({"full":[0],"none":["1-2"]})"},
  };
  for (const auto& [given, expected] : cases) {
    const Recipe recipe = recipe_with(given);
    const std::string written = to_json(recipe)["memory"]["recompute"].dump();
    CHECK(written == expected);
    CHECK(recipe_with(written) == recipe);
  }
}

TEST_CASE("wrong lists of layers are refused where they are", "[recipe]") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"full": [8]})", "/memory/recompute: names layer 8; the model has layers 0 to 7"},
      {R"({"full": ["6-9"]})", "/memory/recompute: names layer 9; the model has layers 0 to 7"},
      {R"({"full": [1], "selective": [0, "0-2"]})", "/memory/recompute/selective/1: layer 0 is named before"},
      {R"({"full": ["3-1"]})", "/memory/recompute/full/0: \"3-1\" is no range of layers"},
      {R"({"full": ["1"]})", "/memory/recompute/full/0: \"1\" is no range of layers"},
      {R"({"full": [-1]})", "/memory/recompute/full/0: -1"},
      {R"({"full": [true]})", "/memory/recompute/full/0: "},
      {R"({"full": []})", "/memory/recompute/full: the list is empty"},
      {R"({"full": 3})", "/memory/recompute/full: "},
      {R"({})", "/memory/recompute: is an empty object"},
      {R"({"fully": [3]})", "/memory/recompute"},
      {R"([3])", "/memory/recompute: "},
  };
  for (const auto& [given, expected] : cases) {
    INFO(given);
    CHECK_THROWS_WITH(recipe_with(given), Catch::Contains(expected));
  }
}

}  // namespace
}  // namespace llmtrain
