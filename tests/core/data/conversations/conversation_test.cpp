// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/conversation.h"

#include <catch2/catch.hpp>

#include "core/base/error.h"

namespace llmtrain::test {
namespace {

Conversation read(const std::string& line, const FineTuningRecipe& recipe = {}) {
  return ConversationReader(recipe, {}).read({line, 3}, "chat.jsonl");
}

constexpr const char* greeting = R"({"messages": [{"role": "system", "content": "Be brief."},
  {"role": "user", "content": " Hi\n"}, {"role": "assistant", "content": " Hello! "},
  {"role": "user", "content": "Bye"}, {"role": "assistant", "content": "Bye."}], "source": "x"})";

}  // namespace

TEST_CASE("a template's messages end with the token that its models were trained with") {
  CHECK(ChatTemplates({}, {}).end_of_answer() == "<|im_end|>");
  CHECK(ChatTemplates({.chat_template = {ChatTemplate::llama3, ""}}, {}).end_of_answer() == "<|eot_id|>");
}

// https://huggingface.co/Qwen/Qwen2-0.5B-Instruct, tokenizer_config.json: {{'<|im_start|>' + message['role'] + '\n' +
// message['content'] + '<|im_end|>' + '\n'}}.
TEST_CASE("ChatML writes messages as Qwen2 does, and answers count with their end") {
  const Conversation chat = read(greeting);
  CHECK_FALSE(chat.is_plain);
  CHECK(chat.parts ==
        std::vector<LabelledText>{{"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi\n<|im_end|>\n"
                                   "<|im_start|>assistant\n",
                                   false},
                                  {" Hello! <|im_end|>", true},
                                  {"\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n", false},
                                  {"Bye.<|im_end|>", true},
                                  {"\n", false}});
}

// https://huggingface.co/meta-llama/Meta-Llama-3-8B-Instruct, tokenizer_config.json: '<|start_header_id|>' +
// message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>', after bos_token.
TEST_CASE("The template of Llama 3 trims contents and begins with its beginning of text") {
  CHECK(
      read(greeting, {.chat_template = {ChatTemplate::llama3, ""}}).parts ==
      std::vector<LabelledText>{
          {"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
           "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
           false},
          {"Hello!<|eot_id|>", true},
          {"<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
           false},
          {"Bye.<|eot_id|>", true}});
}

TEST_CASE("Llama 3 trims the white space that Python's strip() does") {
  const char* line = "{\"messages\": [{\"role\": \"user\", \"content\": \"\\u00a0 a\\u2003b \\u3000\\u001f\"}]}";
  CHECK(read(line, {.chat_template = {ChatTemplate::llama3, ""}}).parts ==
        std::vector<LabelledText>{
            {"<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\na\u2003b<|eot_id|>", false}});
}

TEST_CASE("A prompt and its completion are two texts without a template") {
  const Conversation plain = read(R"({"prompt": "2 + 2 =", "completion": " 4"})");
  CHECK(plain.is_plain);
  CHECK(plain.parts == std::vector<LabelledText>{{"2 + 2 =", false}, {" 4", true}});
}

TEST_CASE("Of a prompt in messages no answer counts, of its completion all do") {
  const Conversation chat = read(R"({"prompt": [{"role": "assistant", "content": "a"}],
    "completion": [{"role": "tool", "content": "b"}, {"role": "assistant", "content": "c"}]})");
  CHECK(chat.parts == std::vector<LabelledText>{{"<|im_start|>assistant\na<|im_end|>\n<|im_start|>tool\nb<|im_end|>\n"
                                                 "<|im_start|>assistant\n",
                                                 false},
                                                {"c<|im_end|>", true},
                                                {"\n", false}});
}

TEST_CASE("All tokens count where the recipe asks for them") {
  const FineTuningRecipe all{.counted = CountedTokens::all};
  CHECK(read(R"({"prompt": "a", "completion": "b"})", all).parts == std::vector<LabelledText>{{"ab", true}});
  CHECK(read(greeting, all).parts.size() == 1);
}

TEST_CASE("What says nothing beside a message's content is passed over") {
  CHECK(read(R"({"messages": [{"role": "user", "content": "a", "name": null, "tool_calls": []}]})").parts.size() == 1);
}

TEST_CASE("A line that is no conversation is refused with its number") {
  const auto check = [](const std::string& line, const std::string& words) {
    CAPTURE(line);
    try {
      read(line);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::bad_data);
      CHECK_THAT(error.what(), Catch::StartsWith("chat.jsonl: line 3 ") && Catch::Contains(words));
    }
  };
  check("{", "is not a JSON object");
  check("[]", "is not a JSON object");
  check(R"({"text": "a"})", "neither \"messages\" nor \"prompt\" nor \"instruction\"");
  check(R"({"messages": "a"})", "no list \"messages\"");
  check(R"({"messages": ["a"]})", "something else than messages");
  check(R"({"messages": [{"content": "a"}]})", "no string \"role\"");
  check(R"({"messages": [{"role": "user", "content": 5}]})", "no string \"content\"");
  check(R"({"messages": [{"role": "bot", "content": "a"}]})", "the role \"bot\"");
  check(R"({"messages": [{"role": "user", "content": "a", "name": "Ann"}]})", "a message with \"name\"");
  check(R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{}]}]})", "a message with \"tool_calls\"");
  check(R"({"messages": [{"role": "user", "content": null}]})", "no string \"content\"");
  check(R"({"messages": [{"role": "user", "content": [{"type": "image", "url": "a"}]}]})", "not of texts alone");
  check(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})",
      "in several parts");
  check(R"({"messages": [{"role": "user", "content": "a", "weight": 2}]})", "neither 0 nor 1");
  check(R"({"messages": []})", "no message in \"messages\"");
  check(R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "f"}]})", "has \"tools\"");
  check(R"({"messages": [{"role": "user", "content": "a"}], "tools": "f"})", "that are no list");
  check(R"({"prompt": "a"})", "no string \"completion\"");
  check(R"({"prompt": [], "completion": "a"})", "no list \"completion\"");
}

}  // namespace llmtrain::test
