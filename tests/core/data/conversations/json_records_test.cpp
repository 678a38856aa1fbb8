// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/json_records.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

using Records = std::vector<std::pair<std::string, std::int64_t>>;

Records records_of(const std::string& text) {
  const TemporaryDirectory folder;
  JsonRecordReader reader(folder.write("a.json", text));
  Records records;
  for (Record record; reader.next(record);) records.emplace_back(record.text, record.line);
  return records;
}

// A value with all that could be mistaken for an end.
nlohmann::json random_value(std::mt19937& random, int depth) {
  const auto kind = random() % (depth > 0 ? 6 : 4);
  if (kind == 0) return std::vector<std::string>{"", "a\"]", "\\", "{,[", "é\n"}[random() % 5];
  if (kind == 1) return static_cast<int>(random() % 100) - 50;
  if (kind == 2) return nullptr;
  if (kind == 3) return true;
  auto value = kind == 4 ? nlohmann::json::array() : nlohmann::json::object();
  for (auto i = random() % 4; i > 0; --i) {
    if (kind == 4) {
      value.push_back(random_value(random, depth - 1));
    } else {
      value["k}" + std::to_string(i)] = random_value(random, depth - 1);
    }
  }
  return value;
}

}  // namespace

TEST_CASE("Elements of a list are records, however they are written") {
  CHECK(records_of("[\n{\"a\": \"]\\\"\"},\n\n {\"b\":\n[1, {}]} , 5,\"x\",null]\n") ==
        Records{{R"({"a": "]\""})", 2}, {"{\"b\":\n[1, {}]}", 4}, {"5", 5}, {"\"x\"", 5}, {"null", 5}});
  CHECK(records_of(" [ ] ").empty());
  CHECK(records_of("").empty());
}

TEST_CASE("Values one after another are records, too") {
  CHECK(records_of("{\"a\": 1}\n{\"a\":\n 2} {}\n") == Records{{R"({"a": 1})", 1}, {"{\"a\":\n 2}", 2}, {"{}", 3}});
}

TEST_CASE("Lists of any values come back as they were, in any layout") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    auto list = nlohmann::json::array();
    for (auto i = random() % 5; i > 0; --i) list.push_back(random_value(random, 3));
    auto read_back = nlohmann::json::array();
    for (const auto& [text, line] : records_of(list.dump(static_cast<int>(random() % 4) - 1)))
      read_back.push_back(nlohmann::json::parse(text));
    CHECK(read_back == list);
  }
}

TEST_CASE("A list that is damaged is refused with its line") {
  const auto check = [](const std::string& text, const std::string& words) {
    CAPTURE(text);
    CHECK_THROWS_WITH(records_of(text), Catch::Contains("a.json: line " + words));
  };
  check("[1,\n2", "2 is the last one, and the list does not end");
  check("[1\n 2]", "2 has no comma");
  check("[1]\n]", "2 has something behind the list");
  check("[,1]", "1 has a comma");
  check("[1,\n]", "2 has a comma or a bracket");
  check("{}\n]", "2 has a comma or a bracket");
}

TEST_CASE("Reading JSON goes on where it was left") {
  const TemporaryDirectory folder;
  const auto file = folder.write("a.json", "[{\"a\": 1},\n [2], \"]\\\"\",\n4 ]\n");
  JsonRecordReader whole(file);
  std::vector<std::int64_t> places;
  std::vector<std::string> texts;
  for (Record record; places.push_back(whole.offset()), whole.next(record);) texts.push_back(record.text);
  REQUIRE(texts.size() == 4);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    JsonRecordReader rest(file);
    rest.skip(places[i], 0);
    Record record;
    REQUIRE(rest.next(record));
    CHECK(record.text == texts[i]);
  }
}

}  // namespace llmtrain::test
