// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_text.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/json/json_file.h"
#include "core/json/json_memory.h"
#include "tests/core/recipe/good_recipe.h"

namespace llmtrain {
namespace {

using test::complaints;

TEST_CASE("Text that is not JSON is refused with line, column and a plain message", "[recipe]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "line 1, column 1: the text is empty"},
      {" \n\t", "the text is empty"},
      {"{\"model\": {\n  \"layers\": 4,", "line 2, column 15: the text ends too early"},
      {"{\"name\": \"a", "line 1, column 12: the text ends too early"},
      {"{\"name\": tr", "ends too early"},
      {"{\n\"seed\": 1,\n}", "line 3, column 1: the comma before } must be removed"},
      {"{\"pipeline\": {\"balance\": [1, 2, ]}}", "the comma before ] must be removed"},
      {"{\"seed\": NaN}", "line 1, column 10: NaN is not a JSON number"},
      {"{\"seed\": -Infinity}", "-Infinity is not a JSON number"},
      {"{\"seed\": 1e999}", "the number 1e999 is too large"},
      {"{\"seed\": -1e999}", "the number -1e999 is too large"},
      {"{\"seed\": True}", "True is not JSON; write true"},
      {"{\"seed\": None}", "write null"},
      {"{seed: 1}", "seed is not JSON; strings need double quotes"},
      {"{'seed': 1}", "strings need double quotes"},
      {"{\"seed\": 1 // why\n}", "line 1, column 12: JSON has no comments"},
      {"{\"seed\": 1 \"name\": \"a\"}", "line 1, column"},
      {"{\"seed\" 1}", "line 1, column 9: 1 is not allowed here"},
      {"{\"seed\": 01}", "line 1, column 11: 01 is not a JSON number; write 1"},
      {"{\"seed\": .5}", "line 1, column 10: .5 is not a JSON number; write 0.5"},
      {"{\"seed\": 1.}", "1. is not a JSON number; write 1.0"},
      {"{\"seed\": +1}", "+1 is not a JSON number; write 1"},
      {"{\"seed\": 1_000}", "1_000 is not a JSON number; write 1000"},
      {"{\"seed\": 1}}", "there is text after the end"},
      {"{} {}", "there is text after the end"},
      {"{\"name\": \"a\nb\"}", "a string contains a line break or control character"},
      {"{\"name\": \"a\\qb\"}", "invalid escape"},
      {"{\"name\": \"\xC3\x28\"}", "is not UTF-8"},
      {"{\"name\": \"\xFF\"}", "is not UTF-8"},
      {"\xFF\xFE{\0}\0", "line 1, column 1"},
      {"\xEF\xBB\xBF{}", "line 1, column 1: the text starts with a byte order mark"},
      {"{\"n\xC3\xA4me\": ?}", "line 1, column 10: ? is not allowed here"},
  };
  for (const auto& [text, words] : cases) {
    const auto lines = complaints(text);
    CAPTURE(text, lines);
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::StartsWith("r.json: ") && Catch::Contains(words));
  }
}

TEST_CASE("Hostile sizes and depths cause one short error", "[recipe]") {
  const std::size_t million = 1'000'000;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {std::string(million, '['), "more than 64 levels deep"},
      {R"({"model":)" + std::string(100, '[') + std::string(100, ']') + "}", "more than 64 levels deep"},
      {'"' + std::string(10 * million, 'a') + '"', "larger than 1 MiB"},
      {R"({"name": ")" + std::string(10 * million, 'a') + "\"}", "larger than 1 MiB"},
      {'"' + std::string(million, 'a') + '"', "is a string; must be an object"},
      {std::string(million, '1'), "is too large"},
  };
  for (const auto& [text, words] : cases) {
    const auto lines = complaints(text);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].size() < 250);
    CHECK_THAT(lines[0], Catch::Contains(words));
  }
}

TEST_CASE("Long values and keys are truncated in messages, between characters", "[recipe]") {
  std::string umlauts;
  for (int i = 0; i < 1000; ++i) umlauts += "\xC3\xA4";
  auto json = test::small_recipe();
  json["model"]["architecture"] = umlauts;
  json[umlauts] = 1;
  const auto lines = complaints(json.dump());
  REQUIRE(lines.size() == 2);
  for (const auto& line : lines) {
    CHECK(line.size() < 250);
    CHECK_NOTHROW(nlohmann::json(line).dump());
  }
}

TEST_CASE("A duplicate key is an error at its pointer, wherever it is", "[recipe]") {
  auto text = test::small_recipe().dump();
  text.insert(1, R"("data": {"train": [{"path": "/a.bin", "path": "/b.bin"}]}, "seed": 1, "seed": 1, )");
  const auto lines = complaints(text);
  CHECK(lines == std::vector<std::string>{"r.json: /data/train/0/path: is given twice; a key may appear only once",
                                          "r.json: /seed: is given twice; a key may appear only once"});
}

TEST_CASE("Pointers are escaped and split according to RFC 6901", "[recipe]") {
  CHECK(append_key("/a", "b/c~d") == "/a/b~1c~0d");
  CHECK(split_pointer("/a/b~1c~0d/") == std::vector<std::string>{"a", "b/c~d", ""});
  CHECK(split_pointer("").empty());
}

TEST_CASE("A short text that is a large document is refused before it is built", "[recipe]") {
  std::string values = "[[]";
  for (int i = 0; i < 6'000'000; ++i) values += ",[]";
  values += ']';
  CHECK(is_too_large_json(values));
  CHECK_THAT(parse_json(values).error, Catch::StartsWith("takes more than 512 MiB of memory as JSON"));
  CHECK_THROWS_WITH((parse_json<nlohmann::json>(values, "config.json")),
                    Catch::StartsWith("config.json: takes more than 512 MiB of memory as JSON"));
}

TEST_CASE("A text of 39 MB that is strings, as a tokenizer's, is not too large", "[recipe]") {
  std::string pieces = "{\"vocab\": {\"x\": 0";
  for (int i = 0; i < 600'000; ++i)
    pieces += ",\"" + std::to_string(i) + std::string(50, 'p') + "\": " + std::to_string(i);
  pieces += "}}";
  CHECK(pieces.size() > 39'000'000);
  CHECK_FALSE(is_too_large_json(pieces));
  CHECK(parse_json<nlohmann::json>(pieces, "tokenizer.json").at("vocab").size() == 600'001);
}

TEST_CASE("Numbers keep their type and all 64 bits", "[recipe]") {
  const auto json = parse_json("[9007199254740993, -0, 1.5, 18446744073709551615]");
  REQUIRE(json.error.empty());
  CHECK(json.value[0].get<std::int64_t>() == 9007199254740993);
  CHECK(json.value[1].is_number_integer());
  CHECK(json.value[2].is_number_float());
  CHECK(json.value[3].get<std::uint64_t>() == 18446744073709551615U);
}

}  // namespace
}  // namespace llmtrain
