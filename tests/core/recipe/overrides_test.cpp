// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/rules/rules.h"
#include "tests/core/recipe/good_recipe.h"

namespace llmtrain {
namespace {

using test::complaints;
using test::Json;
using test::parse;
using test::small_recipe;

TEST_CASE("An override sets any key, with dots or slashes", "[recipe]") {
  const auto recipe = parse(small_recipe(), {"batch.micro=4", "/model/kv_heads=2", "training/learning_rate.peak=1e-3",
                                             "model.moe.experts=8", "pipeline.balance=[4]", "parallel.data=\"auto\""});
  CHECK(recipe.batch.micro == 4);
  CHECK(recipe.model.kv_heads == 2);
  CHECK(recipe.training.learning_rate.peak == 1e-3);
  CHECK(recipe.model.moe->experts == 8);
  CHECK(recipe.pipeline.balance.layers_per_stage == std::vector<std::int64_t>{4});
}

// JSON Schema (draft-07, section 6.1.1): "integer" matches any number with a zero fractional part.
TEST_CASE("A whole number may be written with an exponent or a zero fraction", "[recipe]") {
  CHECK(parse(small_recipe(), {"training.steps=1e3", "parallel.data=2.0"}).training.steps == 1000);
  CHECK(parse(small_recipe(), {"parallel.data=2.0"}).parallel.data == 2);
  CHECK(parse(small_recipe(), {"seed=9007199254740992.0"}).seed == 9007199254740992);
  // One above 2^53 is not a double: it reads as its neighbour.
  CHECK(complaints(small_recipe().dump(), {"seed=9007199254740994.0"}).size() == 1);
}

TEST_CASE("A run that ends within its warm-up is warned of, and any other is not", "[recipe]") {
  const auto warnings = [](const std::string& warmup) {
    return recipe_warnings(parse(small_recipe(), {"training.steps=100", "training.learning_rate.peak=0.02",
                                                  "training.learning_rate.warmup_steps=" + warmup}));
  };
  CHECK(warnings("100").empty());
  CHECK(warnings("400") == std::vector<std::string>{
                               "training.learning_rate.warmup_steps: 400 is longer than the run (training.steps 100): "
                               "the learning rate ends at 0.005, below its peak of 0.02"});
  CHECK(warnings("101").size() == 1);
  // 0.02 / 300 × 100 has sixteen digits.
  CHECK_THAT(warnings("300").front(), Catch::Contains("ends at 0.00667, below"));
}

TEST_CASE("Keys of FP8 that have no effect are warned of", "[recipe]") {
  const auto warnings = [](const std::string& level) {
    return recipe_warnings(
        parse(small_recipe(), {"log.fp8_statistics=true", "precision.gradient_scaling=pre",
                               "precision.fp8_scaling.method=delayed", "precision.fp8_level=" + level}));
  };
  CHECK(warnings("off").size() == 3);
  CHECK(warnings("O0").size() == 1);
  CHECK(warnings("O1").empty());
}

TEST_CASE("A value that is not JSON is a string", "[recipe]") {
  const auto recipe =
      parse(small_recipe(), {"name=trial", "model.architecture=llama", "description=a=b \"c", "log.directory=x"});
  CHECK(recipe.name == "trial");
  CHECK(recipe.model.architecture == Architecture::llama);
  CHECK(recipe.description == "a=b \"c");
  CHECK(recipe.log.directory == "x");
}

TEST_CASE("Later overrides win over earlier ones and over the recipe", "[recipe]") {
  CHECK(parse(small_recipe(), {"seed=1", "seed=2"}).seed == 2);
}

TEST_CASE("An override replaces, creates and appends list entries", "[recipe]") {
  auto json = small_recipe();
  json["data"]["train"] = Json::parse(R"([{"path": "/a.bin"}])");
  const auto recipe =
      parse(json, {"data.train.0.weight=2", "data.train.1.path=/b.bin", "data.validation.0.path=/c.bin"});
  CHECK(recipe.data.train == std::vector<DataSource>{{"/a.bin", 2}, {"/b.bin", 1}});
  CHECK(recipe.data.validation == std::vector<DataSource>{{"/c.bin", 1}});
}

TEST_CASE("An override replaces a keyword by an object and null by a section", "[recipe]") {
  auto json = small_recipe();
  json["data"]["tokenizer"] = "bytes";
  json["model"]["moe"] = nullptr;
  const auto recipe = parse(json, {"data.tokenizer.huggingface=/t.json", "model.moe.experts=2"});
  CHECK(recipe.data.tokenizer == TokenizerRecipe{TokenizerKind::huggingface, "/t.json"});
  CHECK(recipe.model.moe->experts == 2);
}

TEST_CASE("A path in an override resolves against the working directory", "[recipe]") {
  auto json = small_recipe();
  json["data"]["train"] = Json::parse(R"([{"path": "a.bin"}, {"path": "b.bin"}])");
  const auto recipe = parse(json, {"data.train.1.path=c.bin", "training.init_from=hf:m", "checkpoint.resume=auto"});
  const auto here = std::filesystem::canonical(".").string();
  CHECK(recipe.data.train[0].path == "/recipes/a.bin");
  CHECK(recipe.data.train[1].path == here + "/c.bin");
  CHECK(recipe.training.init_from == "hf:" + here + "/m");
  CHECK(recipe.checkpoint.resume == "auto");
}

TEST_CASE("Errors in an override are reported as --set", "[recipe]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"batch.micro=0", "--set: /batch/micro: 0 is out of range; must be a whole number from 1"},
      {"batch.micro=two", "--set: /batch/micro: \"two\" is a string"},
      {"batch.micro=NaN", "--set: /batch/micro: \"NaN\" is a string"},
      {"training.learning_rate.peak=.5", "\".5\" is a string; must be a number from 0 to 1000; did you mean 0.5?"},
      {"batch.micro=+2", "did you mean 2?"},
      {"data.train=[{\"path\": \"/a.bin\"}", "is not JSON: line 1, column 21: the text ends too early; must be a list"},
      {"batch={micro: 2}", "\"{micro: 2}\" is not JSON: line 1, column 2: micro is not JSON; strings need double"},
      {"batch.micr=2",
       "--set: /batch/micr: is not a recipe key; llmtrain schema lists all keys; did you mean \"micro\"?"},
      {"modle.layers=2", "--set: /modle: is not a recipe key; llmtrain schema lists all keys; did you mean \"model\"?"},
      {"seed.x=2", "--set: /seed: is an object; must be a whole number"},
      {"model.kv_heads=3", "--set: /model/kv_heads: 3 does not divide 8"},
      {"name=5", "--set: /name: 5 is a number"},
      {"data.train.5.path=a", "--set: /data/train/5: is not in the list; must be an index from 0 to 0"},
      {"data.train=[{\"path\": \"/a.bin\", \"path\": \"/b.bin\"}]", "--set: data.train/0/path: is given twice"},
      {"seed", "--set: seed: is not a setting; must be pointer.path=JSON"},
      {"=5", "--set: =5: is not a setting"},
      {"", "--set: : is not a setting"},
      {"model..layers=5", "is not a setting"},
      {"name=\xFF", "the text is not UTF-8"},
  };
  for (const auto& [text, words] : cases) {
    auto json = small_recipe();
    json["data"]["train"] = Json::array();
    const auto lines = complaints(json.dump(), {text});
    CAPTURE(text, lines);
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::Contains(words));
  }
}

TEST_CASE("Overrides of hostile depth are refused", "[recipe]") {
  std::string path = "a";
  for (int i = 0; i < 100'000; ++i) path += ".a";
  const auto lines = complaints(small_recipe().dump(), {path + "=1"});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].size() < 250);
}

TEST_CASE("Errors of the file and of overrides are reported together", "[recipe]") {
  auto json = small_recipe();
  json["seed"] = -1;
  CHECK(complaints(json.dump(), {"batch.micro=0", "oops"}).size() == 3);
}

}  // namespace
}  // namespace llmtrain
