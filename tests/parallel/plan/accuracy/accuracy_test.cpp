// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/accuracy/accuracy.h"

#include <catch2/catch.hpp>

namespace llmtrain {
namespace {

constexpr const char* text = R"({
  "step": {"all": {"rows": 20, "error": 0.08, "devices": 8},
           "by_program": {"many": {"rows": 4, "error": 0.05, "devices": 8},
                          "few": {"rows": 3, "error": 0.01, "devices": 8}}},
  "memory": {"all": {"rows": 9, "error": 0.1, "devices": 8}, "by_program": {}}
})";

TEST_CASE("a program is judged by its own rows where they are enough, else by all") {
  const Accuracy many = parse_accuracy(text, "file", "many");
  REQUIRE(many.step);
  CHECK(many.step->error == 0.05);
  CHECK(many.step->rows == 4);
  CHECK(many.step->program == "many");
  REQUIRE(many.memory);
  CHECK(many.memory->error == 0.1);
  CHECK(many.memory->program.empty());
  for (const char* program : {"few", "none"}) {
    const Accuracy other = parse_accuracy(text, "file", program);
    REQUIRE(other.step);
    CHECK(other.step->error == 0.08);
    CHECK(other.step->rows == 20);
    CHECK(other.step->program.empty());
  }
}

TEST_CASE("a program without rows is judged by the worst of those that have enough") {
  const Accuracy other = parse_accuracy(R"({
    "step": {"all": {"rows": 20, "error": 0.08, "devices": 8},
             "by_program": {"bad": {"rows": 6, "error": 0.12, "devices": 8},
                            "few": {"rows": 3, "error": 0.2, "devices": 8},
                            "good": {"rows": 11, "error": 0.02, "devices": 8}}},
    "memory": {"all": {"rows": 9, "error": 0.1, "devices": 8},
               "by_program": {"good": {"rows": 9, "error": 0.1, "devices": 8}}}
  })",
                                        "file", "none");
  REQUIRE(other.step);
  CHECK(other.step->error == 0.12);
  CHECK(other.step->rows == 6);
  CHECK(other.step->program == "bad");
  REQUIRE(other.memory);
  CHECK(other.memory->program.empty());
}

TEST_CASE("a plan on more devices than its program's runs had is judged by all programs, where these are worse") {
  const Accuracy many = parse_accuracy(text, "file", "many");
  CHECK(accuracy_on(many, 8).step->program == "many");
  CHECK(accuracy_on(many, 9).step->error == 0.08);
  CHECK(accuracy_on(many, 9).step->program.empty());
  Accuracy worse = many;
  worse.step->error = 0.2;
  CHECK(accuracy_on(worse, 9).step->error == 0.2);
  CHECK_FALSE(accuracy_on({}, 9).step);
}

TEST_CASE("an error is stated with where it is from") {
  const Accuracy many = parse_accuracy(text, "file", "many");
  CHECK(margin_text(*many.step) == "± 5 %");
  CHECK(origin_text(*many.step) == "from 4 published runs planned as many");
  CHECK(margin_text(*many.memory) == "± 10 %");
  CHECK(origin_text(*many.memory) == "from 9 published runs of all programs");
}

TEST_CASE("with the rates of another device steps are judged by the worst program, and memory as ever") {
  const Accuracy many = with_borrowed_rates(parse_accuracy(text, "file", "many"), "b200");
  CHECK(many.step->error == 0.08);
  CHECK(many.step->rows == 20);
  CHECK(origin_text(*many.step) ==
        "from 20 published runs of all programs, none on this device, for which the rates of b200 are taken");
  CHECK(many.memory->borrowed_from.empty());
  CHECK(accuracy_on(many, 9).step->borrowed_from == "b200");
  CHECK_FALSE(with_borrowed_rates({}, "b200").step);
}

TEST_CASE("what is no table of errors is refused with its name") {
  for (const char* bad : {"", "[]", "{}", R"({"step": {"all": {"rows": 1}}, "memory": {}})",
                          R"({"step": {"all": {"rows": 1, "error": 1.5, "devices": 8}, "by_program": {}},
                              "memory": {"all": {"rows": 1, "error": 0.1, "devices": 8}, "by_program": {}}})"})
    CHECK_THROWS_WITH(parse_accuracy(bad, "scores.json", "many"), Catch::StartsWith("scores.json: "));
}

TEST_CASE("without the file nothing is known") {
  const Accuracy none = load_accuracy("/nowhere/accuracy.json", "many");
  CHECK_FALSE(none.step);
  CHECK_FALSE(none.memory);
}

}  // namespace
}  // namespace llmtrain
