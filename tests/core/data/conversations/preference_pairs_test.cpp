// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/preference_pairs.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/data/conversations/conversation.h"

namespace llmtrain::test {
namespace {

FineTuningRecipe chosen_recipe() {
  FineTuningRecipe recipe;
  recipe.preferences = Preferences::chosen;
  return recipe;
}

Conversation read(const std::string& line, const FineTuningRecipe& recipe) {
  return ConversationReader(recipe, {}).read({line, 3}, "pairs.jsonl");
}

// The record of that text is read as that of the other text is, where the chosen answers are asked for, and refused by
// name where they are not.
void check_same(const std::string& pair, const std::string& plain, const FineTuningRecipe& recipe = chosen_recipe()) {
  INFO(pair);
  const Conversation found = read(pair, recipe), expected = read(plain, recipe);
  CHECK(found.parts == expected.parts);
  CHECK(found.is_plain == expected.is_plain);
  FineTuningRecipe other = recipe;
  other.preferences = Preferences::refuse;
  CHECK_THROWS_WITH(read(pair, other), Catch::Contains("pairs.jsonl: line 3 is a preference") &&
                                           Catch::Contains("data.fine_tuning.preferences"));
  CHECK(read(plain, other).parts == expected.parts);
}

}  // namespace

// https://huggingface.co/docs/trl/dataset_formats names these forms, and what each says as a prompt and a completion.
TEST_CASE("Preferences of TRL are read as their prompt and the chosen completion") {
  check_same(R"({"prompt": "The sky is", "chosen": " blue.", "rejected": " green."})",
             R"({"prompt": "The sky is", "completion": " blue."})");
  check_same(R"({"chosen": "The sky is blue.", "rejected": "The sky is green."})",
             R"({"prompt": "The sky is", "completion": " blue."})");
  const std::string prompt = R"([{"role": "user", "content": "What color is the sky?"}])";
  const std::string blue = R"({"role": "assistant", "content": "It is blue."})";
  const std::string green = R"({"role": "assistant", "content": "It is green."})";
  const std::string expected = R"({"prompt": )" + prompt + R"(, "completion": [)" + blue + "]}";
  check_same(R"({"prompt": )" + prompt + R"(, "chosen": [)" + blue + R"(], "rejected": [)" + green + "]}", expected);
  const std::string asked = prompt.substr(0, prompt.size() - 1);
  check_same(R"({"chosen": )" + asked + ", " + blue + R"(], "rejected": )" + asked + ", " + green + "]}", expected);
}

// As data for TRL's trainers of answers that are good or not, which are not paired.
TEST_CASE("Answers with a label are read where it says that they are good") {
  check_same(R"({"prompt": "a", "completion": "b", "label": true})", R"({"prompt": "a", "completion": "b"})");
  CHECK(read(R"({"prompt": "a", "completion": "b", "label": false})", chosen_recipe()).parts.empty());
  FineTuningRecipe all = chosen_recipe();
  all.counted = CountedTokens::all;
  CHECK(read(R"({"prompt": "a", "completion": "b", "label": false})", all).parts.empty());
  // A class, as data of other kinds have it.
  CHECK(read(R"({"prompt": "a", "completion": "b", "label": 0})", FineTuningRecipe()).is_plain);
}

// https://github.com/hiyouga/LLaMA-Factory, data/README.md: "ranking".
TEST_CASE("Preferences of LLaMA-Factory go on with their messages or instructions") {
  const std::string asked = R"("conversations": [{"from": "system", "value": "S"}, {"from": "human", "value": "a"}])";
  const std::string expected = R"({"prompt": [{"role": "system", "content": "S"}, {"role": "user", "content": "a"}],
                                   "completion": [{"role": "assistant", "content": "b"}]})";
  check_same("{" + asked + R"(, "chosen": {"from": "gpt", "value": "b"}, "rejected": {"from": "gpt", "value": "c"}})",
             expected);
  check_same("{" + asked + R"(, "chosen": "b", "rejected": "c"})", expected);
  check_same(R"({"instruction": "a", "input": "i", "chosen": "b", "rejected": "c", "system": "S"})",
             R"({"instruction": "a", "input": "i", "output": "b", "system": "S"})");
}

// UltraFeedback has the prompt once more beside whole conversations, and tables hold lists as texts.
TEST_CASE("A prompt of text goes before messages, and is not said twice") {
  const std::string expected = R"({"prompt": [{"role": "user", "content": "a"}],
                                   "completion": [{"role": "assistant", "content": "b"}]})";
  check_same(R"({"prompt": "a",
                 "chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
                 "rejected": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "c"}]})",
             expected);
  check_same(R"({"prompt": "a", "chosen": [{"role": "assistant", "content": "b"}],
                 "rejected": [{"role": "assistant", "content": "c"}]})",
             expected);
  check_same(R"({"prompt": "a", "chosen": "[{\"role\": \"assistant\", \"content\": \"b\"}]",
                 "rejected": "[{\"role\": \"assistant\", \"content\": \"c\"}]"})",
             expected);
}

TEST_CASE("Keys of preferences are those that the recipe names") {
  FineTuningRecipe recipe = chosen_recipe();
  recipe.fields.chosen = "better", recipe.fields.rejected = "worse", recipe.fields.prompt = "question";
  check_same(R"({"question": "a", "better": "b", "worse": "c"})", R"({"question": "a", "completion": "b"})", recipe);
  // One answer that is named as another form's is no preference.
  FineTuningRecipe named;
  named.fields.completion = "chosen";
  CHECK(read(R"({"prompt": "a", "chosen": "b", "rejected": "c"})", named).is_plain);
}

TEST_CASE("Messages that hold an answer are a conversation whatever stands beside them") {
  const std::string messages =
      R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  CHECK(read("{" + messages + R"(, "chosen": "b", "rejected": "c"})", FineTuningRecipe()).parts ==
        read("{" + messages + "}", FineTuningRecipe()).parts);
}

TEST_CASE("Texts are divided between characters") {
  // "ü" and "ö" begin with the same byte of UTF-8.
  check_same(R"({"chosen": "sch\u00fcn", "rejected": "sch\u00f6n"})", R"({"prompt": "sch", "completion": "\u00fcn"})");
}

TEST_CASE("Preferences that say nothing are refused by line") {
  const auto check = [](const std::string& line, const std::string& words) {
    INFO(line);
    CHECK_THROWS_WITH(read(line, chosen_recipe()), Catch::StartsWith("pairs.jsonl: line 3 ") && Catch::Contains(words));
  };
  check(R"({"prompt": "a", "chosen": "b", "rejected": "b"})", "the same \"chosen\" and \"rejected\"");
  check(R"({"chosen": "b", "rejected": "c"})", "do not begin alike");
  check(R"({"chosen": "b", "rejected": "bc"})", "nothing \"chosen\"");
  check(R"({"prompt": "a", "chosen": "b", "rejected": [{"role": "assistant", "content": "c"}]})", "neither two texts");
  check(R"({"prompt": "a", "chosen": 1, "rejected": 2})", "neither two texts");
  check(R"({"instruction": "a", "chosen": [{"role": "assistant", "content": "c"}], "rejected": []})",
        "no string \"output\"");
}

}  // namespace llmtrain::test
