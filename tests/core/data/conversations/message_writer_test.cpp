// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/message_writer.h"

#include <catch2/catch.hpp>

namespace llmtrain::test {
namespace {

const Json conversation = Json::parse(R"({"messages": [{"role": "user", "content": "a"},
  {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})");

const std::vector<bool> all(4, true), last = {false, false, true, true};

using Parts = std::vector<LabelledText>;

void check_refused(std::string_view source, const std::string& words) {
  CHECK_THROWS_WITH(MessageWriter(source, Json::object()).write(conversation, all), Catch::Contains(words));
}

}  // namespace

TEST_CASE("Answers are what a template without marks adds behind its prompt") {
  const MessageWriter writer(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{{ '\n' }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      {{"bos_token", "<s>"}});
  CHECK(writer.write(conversation, all) == Parts{{"<s><user>a</s>\n<assistant>", false},
                                                 {"b</s>", true},
                                                 {"\n<user>c</s>\n<assistant>", false},
                                                 {"d</s>", true},
                                                 {"\n", false}});
  CHECK(writer.write(conversation, last)[1] == LabelledText{"b</s>", false});
  CHECK(writer.write(conversation, last)[3] == LabelledText{"d</s>", true});
}

TEST_CASE("Marks of a template go before its prompt, also in texts of several bytes a character") {
  const MessageWriter writer(
      "{% for m in messages %}{% if m.role == 'assistant' %}ü{% generation %}{{ m.content }}é{% endgeneration %}"
      "{% else %}{{ m.content }}{% endif %}{% endfor %}",
      Json::object());
  CHECK(writer.write(conversation, all) == Parts{{"aü", false}, {"bé", true}, {"cü", false}, {"dé", true}});
}

TEST_CASE("An answer between others does not count where the conversation says so") {
  const MessageWriter writer(
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}"
      "{% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}",
      Json::object());
  CHECK(writer.write(conversation, {true, false, true, true}) ==
        Parts{{"a", false}, {"b", false}, {"c", false}, {"d", true}});
}

TEST_CASE("A template is told the date that it is given, and refused without one") {
  const std::string source = "{{ strftime_now('%d %b %Y') }}{{ messages[0].content }}";
  std::tm day{};
  day.tm_year = 124, day.tm_mon = 6, day.tm_mday = 26;
  const Json one = Json::parse(R"({"messages": [{"role": "user", "content": "a"}]})");
  CHECK(MessageWriter(source, Json::object(), day).text(one) == "26 Jul 2024a");
  CHECK_THROWS_WITH(MessageWriter(source, Json::object()).text(one), Catch::Contains("strftime_now"));
}

TEST_CASE("A template that writes an answer otherwise once others follow is refused") {
  check_refused("{% for m in messages %}{{ '*' if loop.last }}{{ m.content }}{% endfor %}", "message 2 otherwise");
  check_refused("{% for m in messages %}{{ m.content }}{% endfor %}{{ '>' if add_generation_prompt }}", "message 2");
  check_refused("{% set x %}{% generation %}b{% endgeneration %}{% endset %}{{ x }}", "within a macro or a set block");
  check_refused("{{ raise_exception('No ' ~ messages|length) }}", "No 4");
}

}  // namespace llmtrain::test
