// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/chat_templates.h"

#include <catch2/catch.hpp>

#include "core/data/conversations/conversation.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

std::string text_of(const std::string& line, const FineTuningRecipe& recipe, const TokenizerRecipe& tokenizer = {}) {
  std::string text;
  for (const LabelledText& part : ConversationReader(recipe, tokenizer).read({line, 3}, "chat.jsonl").parts)
    text += part.text;
  return text;
}

// What a template of one's own makes of a line.
class OwnTemplate {
 public:
  explicit OwnTemplate(const std::string& source, FineTuningRecipe recipe = {}) : recipe_(std::move(recipe)) {
    recipe_.chat_template = {ChatTemplate::file, folder_.write("chat_template.jinja", source).string()};
  }
  std::string text(const std::string& line) const { return text_of(line, recipe_); }

 private:
  TemporaryDirectory folder_;
  FineTuningRecipe recipe_;
};

// A user's message with more behind its content.
std::string with(const std::string& more) { return R"({"messages": [{"role": "user", "content": "a")" + more + "]}"; }

}  // namespace

TEST_CASE("Nothing of a message that a template does not write is left out in silence") {
  const OwnTemplate plain("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}");
  CHECK(plain.text(with("}")) == "user:a;");
  CHECK(plain.text(with(R"(}, {"role": "tool", "content": "b"})")) == "user:a;tool:b;");
  CHECK_THROWS_WITH(plain.text(with(R"(, "name": "Ann"})")), Catch::Contains("a message with \"name\""));
  CHECK_THROWS_WITH(plain.text(with(R"(}, {"role": "developer", "content": "b"})")), Catch::Contains("\"developer\""));
  const OwnTemplate without_tools("{% for m in messages if not m.role[0] == 't' %}{{ m.content }}{% endfor %}");
  CHECK_THROWS_WITH(without_tools.text(with(R"(}, {"role": "tool", "content": "b"})")),
                    Catch::Contains("a message of the role tool"));
  const OwnTemplate lenient("{% for m in messages %}{{ m.content }}{% endfor %}", {.left_out = {"name"}});
  CHECK(lenient.text(with(R"(, "name": "Ann"})")) == "a");
  CHECK_THROWS_WITH(lenient.text(with(R"(, "nom": "Ann"})")), Catch::Contains("\"nom\""));
  // One that the template does write stays.
  CHECK(OwnTemplate("{% for m in messages %}{{ m.name }}{% endfor %}", {.left_out = {"name"}})
            .text(with(R"(, "name": "Ann"})")) == "Ann");
}

TEST_CASE("What a template names, or what changes its text, is written as it says") {
  const OwnTemplate knowing(
      "{% for m in messages %}{{ m.role }}{{ m.name }}{% for c in m.tool_calls %}{{ c | tojson }}"
      "{% endfor %}{{ m.content }}{% endfor %}{{ tools | tojson if tools }}"
      "{{ 'developer' if false }}");
  CHECK(knowing.text(with(R"(, "name": "Ann"})")) == "userAnna");
  CHECK(knowing.text(with(R"(}, {"role": "developer", "content": "b"})")) == "useradeveloperb");
  CHECK(knowing.text(R"({"messages": [{"role": "user", "content": null, "tool_calls": [{"f": 1}]}],
                         "tools": "[2]"})") == R"(user{"f": 1}[2])");
  CHECK(OwnTemplate("{{ messages | tojson }}").text(with(R"(, "x": 1})")) ==
        R"([{"role": "user", "content": "a", "x": 1}])");
}

TEST_CASE("Content in parts goes to templates that know them, and one text is a text to others") {
  const std::string line = R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]})";
  CHECK(OwnTemplate("{{ messages[0].content }}").text(line) == "a");
  CHECK(OwnTemplate("{% for c in messages[0].content %}<{{ c.text }}>{% endfor %}").text(line) == "<a>");
}

TEST_CASE("A template refuses a conversation with the file's line and the template's") {
  const OwnTemplate refusing("\n{{ raise_exception('No roles') }}");
  CHECK_THROWS_WITH(refusing.text(with("}")),
                    Catch::StartsWith("chat.jsonl: line 3 is refused by the chat template ") &&
                        Catch::Contains("chat_template.jinja: line 2: No roles; correct it, or skip"));
}

TEST_CASE("The tokenizer's own template gets the tokens of its folder") {
  const TemporaryDirectory folder;
  const TokenizerRecipe tokenizer{TokenizerKind::huggingface, (folder.path() / "tokenizer.json").string()};
  const FineTuningRecipe recipe{.chat_template = {ChatTemplate::automatic, ""}};
  const auto text = [&](const std::string& line) { return text_of(line, recipe, tokenizer); };
  CHECK_THROWS_WITH(text(with("}")), Catch::Contains("tokenizer.json: has no chat template beside it"));
  folder.write("special_tokens_map.json",
               R"({"bos_token": {"content": "<b>"}, "pad_token": "<p>", "eos_token": null})");
  folder.write("tokenizer_config.json", R"({"eos_token": "<e>", "bos_token": "<old>", "chat_template": [
    {"name": "tool_use", "template": "tools{{ eos_token }}"},
    {"name": "default", "template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token }}"}]})");
  CHECK(text(with("}")) == "<b>a<p>");
  // As transformers chooses, and the file of Jinja first.
  CHECK(text(R"({"messages": [{"role": "user", "content": "a"}], "tools": []})") == "tools");
  folder.write("chat_template.jinja", "{{ messages[0].content }}!");
  CHECK(text(with("}")) == "a!");
  folder.write("chat_template.jinja", "\n{% if %}");
  CHECK_THROWS_WITH(text(with("}")), Catch::Contains("chat_template.jinja: is no chat template: line 2"));
}

}  // namespace llmtrain::test
