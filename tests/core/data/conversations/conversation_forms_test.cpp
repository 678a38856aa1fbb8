// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/data/conversations/conversation.h"
#include "core/data/conversations/conversation_forms.h"

namespace llmtrain::test {
namespace {

Conversation formed(const std::string& line, const FineTuningRecipe& recipe = {}) {
  return ConversationReader(recipe, {}).read({line, 3}, "chat.jsonl");
}

}  // namespace

// https://github.com/lm-sys/FastChat (ShareGPT) and https://github.com/tatsu-lab/stanford_alpaca name their keys so.
TEST_CASE("Conversations of ShareGPT and Alpaca are what their messages would be") {
  const auto messages = [](const std::string& list) { return formed(R"({"messages": )" + list + "}").parts; };
  CHECK(formed(R"({"id": "x", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"},
                 {"from": "observation", "value": "o"}], "system": "S"})")
            .parts == messages(R"([{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"},
                                   {"role": "assistant", "content": "Ho"}, {"role": "tool", "content": "o"}])"));
  CHECK(formed(R"({"instruction": "Add.", "input": "1 2", "output": "3"})").parts ==
        messages(R"([{"role": "user", "content": "Add.\n1 2"}, {"role": "assistant", "content": "3"}])"));
  CHECK(formed(R"({"instruction": "Add.", "input": "", "output": "3"})").parts ==
        messages(R"([{"role": "user", "content": "Add."}, {"role": "assistant", "content": "3"}])"));
}

TEST_CASE("Keys and roles that are called otherwise are those that the recipe names") {
  FineTuningRecipe recipe;
  recipe.fields.messages = "dialog", recipe.fields.role = "speaker", recipe.fields.content = "says";
  recipe.fields.instruction = "q", recipe.fields.output = "a";
  recipe.roles.user = {"Ann", "Ed"}, recipe.roles.assistant = {"Bot"};
  const Conversation expected = formed(R"({"messages": [{"role": "user", "content": "a"},
    {"role": "assistant", "content": "b"}]})");
  CHECK(formed(R"({"dialog": [{"speaker": "Ed", "says": "a"}, {"speaker": "Bot", "says": "b"}]})", recipe).parts ==
        expected.parts);
  CHECK(formed(R"({"q": "a", "a": "b"})", recipe).parts == expected.parts);
  recipe.fields.prompt = "p", recipe.fields.completion = "c";
  CHECK(formed(R"({"p": "a", "c": "b"})", recipe).is_plain);
}

TEST_CASE("An answer of weight 0 does not count") {
  CHECK(formed(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0},
                 {"role": "assistant", "content": "b", "weight": 1}]})")
            .parts == std::vector<LabelledText>{{"<|im_start|>assistant\na<|im_end|>\n<|im_start|>assistant\n", false},
                                                {"b<|im_end|>", true},
                                                {"\n", false}});
}

// LLaMA-Factory's data/README.md: a call is a JSON text in a message of a role of its own.
TEST_CASE("A call of ShareGPT's form is the assistant's") {
  FineTuningRecipe recipe;
  const auto turns = [&](const std::string& messages) {
    const auto record = llmtrain::Json::parse(R"({"conversations": )" + messages + "}");
    return nlohmann::json(turns_of(record, recipe).variables["messages"]);
  };
  CHECK(turns(R"([{"from": "human", "value": "?"},
                  {"from": "function_call", "value": "{\"name\": \"sky\", \"arguments\": {\"n\": 3}}"},
                  {"from": "observation", "value": "blue"}])") ==
        nlohmann::json::parse(R"([{"role": "user", "content": "?"},
                                  {"role": "assistant", "tool_calls": [
                                    {"type": "function", "function": {"name": "sky", "arguments": {"n": 3}}}]},
                                  {"role": "tool", "content": "blue"}])"));
  CHECK(turns(R"([{"from": "function_call", "value": [{"name": "a", "arguments": "{}"},
                                                     {"name": "b", "arguments": {}}]}])")[0]["tool_calls"]
            .size() == 2);
  recipe.roles.assistant = {"function_call"};
  CHECK(turns(R"([{"from": "function_call", "value": "sky"}])")[0] ==
        nlohmann::json::parse(R"({"role": "assistant", "content": "sky"})"));
}

TEST_CASE("A record in a form that is not read is refused by name") {
  const auto check = [](const std::string& line, const std::string& words) {
    CHECK_THROWS_WITH(formed(line), Catch::StartsWith("chat.jsonl: line 3 ") && Catch::Contains(words));
  };
  check(R"({"conversations": [{"from": "bing", "value": "a"}]})", "(data.fine_tuning.roles)");
  check(R"({"conversations": [{"from": "function_call", "value": "sky"}]})", "data.fine_tuning.roles");
  check(R"({"conversations": [{"from": "function_call", "value": "[]"}]})", "\"name\" and \"arguments\"");
  check(R"({"conversations": [{"from": "human", "text": "a"}]})", "a message with \"text\"");
  check(R"({"conversations": [{"from": "human"}]})", "a message with no string \"content\"");
  check(R"({"system": "x", "messages": [{"role": "system", "content": "a"}]})", "both a \"system\"");
  check(R"({"instruction": "a"})", "no string \"output\"");
  check(R"({"instruction": "a", "output": "b", "history": [["c", "d"]]})", "a \"history\"");
  check(R"({"prompt": "a", "completion": "b", "system": "c"})", "a \"system\" beside a prompt of plain text");
}

}  // namespace llmtrain::test
