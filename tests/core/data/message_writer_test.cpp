// SPDX-License-Identifier: Apache-2.0
#include "core/data/message_writer.h"

#include <catch2/catch.hpp>

namespace llmtrain::test {
namespace {

const Json conversation = Json::parse(R"({"messages": [{"role": "user", "content": "a"},
  {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})");

using Parts = std::vector<LabelledText>;

void check_refused(std::string_view source, const std::string& words) {
  CHECK_THROWS_WITH(MessageWriter(source, Json::object()).write(conversation, 0), Catch::Contains(words));
}

}  // namespace

TEST_CASE("Answers are what a template without marks adds behind its prompt") {
  const MessageWriter writer(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{{ '\n' }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      {{"bos_token", "<s>"}});
  CHECK(writer.write(conversation, 0) == Parts{{"<s><user>a</s>\n<assistant>", false},
                                               {"b</s>", true},
                                               {"\n<user>c</s>\n<assistant>", false},
                                               {"d</s>", true},
                                               {"\n", false}});
  CHECK(writer.write(conversation, 2)[1] == LabelledText{"b</s>", false});
  CHECK(writer.write(conversation, 2)[3] == LabelledText{"d</s>", true});
}

TEST_CASE("Marks of a template go before its prompt, also in texts of several bytes a character") {
  const MessageWriter writer(
      "{% for m in messages %}{% if m.role == 'assistant' %}ü{% generation %}{{ m.content }}é{% endgeneration %}"
      "{% else %}{{ m.content }}{% endif %}{% endfor %}",
      Json::object());
  CHECK(writer.write(conversation, 0) == Parts{{"aü", false}, {"bé", true}, {"cü", false}, {"dé", true}});
}

TEST_CASE("A template that writes an answer otherwise once others follow is refused") {
  check_refused("{% for m in messages %}{{ '*' if loop.last }}{{ m.content }}{% endfor %}", "message 2 otherwise");
  check_refused("{% for m in messages %}{{ m.content }}{% endfor %}{{ '>' if add_generation_prompt }}", "message 2");
  check_refused("{% set x %}{% generation %}b{% endgeneration %}{% endset %}{{ x }}", "within a macro or a set block");
  check_refused("{{ raise_exception('No ' ~ messages|length) }}", "No 4");
}

}  // namespace llmtrain::test
