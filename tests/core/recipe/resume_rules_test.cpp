// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/resume_rules.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/json/document.h"
#include "core/recipe/keys/key_table.h"
#include "core/recipe/recipe_difference.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

TEST_CASE("every key has one rule for resumed runs, and every rule a key") {
  const std::vector<std::string> pointers = key_pointers();
  for (const std::string& pointer : pointers) {
    INFO(pointer);
    // A section whose keys have rules of their own needs none.
    const auto within = [&](const ResumeRule& rule) { return lies_in(rule.pointer, pointer); };
    const auto holds = [&](const ResumeRule& rule) { return lies_in(pointer, rule.pointer); };
    const auto count = std::ranges::count_if(resume_rules(), holds);
    CHECK((count == 1 || (count == 0 && std::ranges::any_of(resume_rules(), within))));
  }
  for (const ResumeRule& rule : resume_rules()) {
    INFO(rule.pointer);
    CHECK(std::ranges::count(pointers, rule.pointer) == 1);
  }
}

TEST_CASE("what a run may go on with") {
  Recipe recipe;
  for (const char* pointer :
       {"/training/steps", "/training/evaluate_every", "/training/learning_rate/decay_steps", "/batch/global",
        "/batch/growth/samples", "/data/validation/0/path", "/log/every", "/parallel/tensor", "/checkpoint/keep"})
    CHECK(reason_against_change(pointer, recipe).empty());
  for (const char* pointer : {"/model/layers", "/model/moe/experts", "/data/train/0/path", "/data/shuffle",
                              "/data/curriculum/sequence_length/start", "/seed", "/name", "/batch/sequence_length",
                              "/precision/compute", "/training/optimizer/beta1"})
    CHECK_FALSE(reason_against_change(pointer, recipe).empty());
  CHECK_FALSE(reason_against_change("/of_tomorrow", recipe).empty());

  CHECK(reason_against_change("/batch/micro", recipe).empty());
  recipe.data.curriculum.sequence_length = {.schedule = {}, .method = LongSamples::reshape};
  CHECK_FALSE(reason_against_change("/batch/micro", recipe).empty());

  // The base of adapters may be moved where checkpoints do not hold it: it is compared by its values.
  recipe.training.init_from = "hf:/models/a";
  CHECK_FALSE(reason_against_change("/training/init_from", recipe).empty());
  recipe.model.lora = LoraRecipe{};
  CHECK(reason_against_change("/training/init_from", recipe).empty());
  recipe.checkpoint.save_base = true;
  CHECK_FALSE(reason_against_change("/training/init_from", recipe).empty());
}

TEST_CASE("differences of recipes are listed key by key, as --set takes them") {
  const std::string first = R"({"model": {"architecture": "gpt2", "layers": 2, "hidden_size": 16, "heads": 2,
    "vocab_size": 256, "max_sequence_length": 16}, "batch": {"global": 4, "micro": 2}, "training": {"steps": 10},
    "data": {"train": [{"path": "a.txt"}, {"path": "b.txt"}]}})";
  const auto differences = [&](const std::vector<Override>& overrides) {
    std::vector<std::string> texts;
    const Recipe before = parse_recipe(first, "first", "/"), now = parse_recipe(first, "second", "/", overrides);
    for (const KeyDifference& key : recipe_differences(before, now)) texts.push_back(key.text());
    return texts;
  };
  using Texts = std::vector<std::string>;
  CHECK(differences({}).empty());
  CHECK(differences({"training.steps=20"}) ==
        Texts{"training.steps: 10 -> 20", "training.learning_rate.decay_steps: 10 -> 20"});
  CHECK(differences({"data.train.1.path=/c.txt"}) == Texts{R"(data.train.1.path: "/b.txt" -> "/c.txt")"});
  CHECK(differences({"data.train.0.weight=2"}) == Texts{"data.train.0.weight: 1.0 -> 2.0"});
  CHECK_THAT(differences({"model.moe.experts=4"}), Catch::VectorContains(std::string("model.moe.experts: null -> 4")));
  CHECK(differences({R"($schema="a.json")"}) == Texts{R"($schema: null -> "a.json")"});
}

}  // namespace
}  // namespace llmtrain
