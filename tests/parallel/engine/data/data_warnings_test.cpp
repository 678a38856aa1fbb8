// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/data/data_warnings.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "parallel/engine/data/run_data.h"
#include "tests/parallel/engine/token_files.h"
#include "tests/parallel/engine/training_setting.h"

namespace llmtrain::test {
namespace {

// A folder of data, and what is said of a recipe that reads them.
class Warned {
 public:
  void write(const std::string& name, const std::string& content) const { setting_.directory().write(name, content); }
  const std::filesystem::path& folder() const { return setting_.directory().path(); }

  std::vector<std::string> of(std::vector<std::string> overrides) const {
    for (std::string& each : overrides)
      for (std::size_t at = each.find("HERE"); at != std::string::npos; at = each.find("HERE"))
        each.replace(at, 4, setting_.directory().path().string());
    const Recipe recipe = setting_.recipe(overrides);
    const RunData data = open_run_data(recipe, {});
    return data_warnings(recipe, data);
  }

 private:
  TrainingSetting setting_;
};

const std::string no_validation = "data.validation=[]";

void check_one(const std::vector<std::string>& warnings, const std::vector<std::string>& parts) {
  REQUIRE(warnings.size() == 1);
  for (const std::string& part : parts) CHECK_THAT(warnings.front(), Catch::Contains(part));
}

}  // namespace

TEST_CASE("nothing is said of data that do what the recipe asks for", "[batch]") {
  Warned warned;
  CHECK(warned.of({no_validation}).empty());
  CHECK(warned.of({no_validation, R"(data.document_mask={"end_of_text": 10})"}).empty());
}

TEST_CASE("a mark that ends no document is said, for each source and role", "[batch]") {
  Warned warned;
  warned.write("other.txt", std::string(100, 'x') + "!" + std::string(100, 'x'));
  const std::string both = R"(data.train=[{"path": "HERE/text.txt"}, {"path": "HERE/other.txt"}])";
  check_one(warned.of({no_validation, both, R"(data.document_mask={"end_of_text": 10})"}),
            {"data.train.1.path: ", "other.txt: none of its 201 tokens is 10"});
  check_one(warned.of({R"(data.validation=[{"path": "HERE/other.txt"}])", R"(data.document_mask={"end_of_text": 10})"}),
            {"data.validation.0.path: "});
  CHECK(warned.of({no_validation, both, R"(data.document_mask={"end_of_text": 0})"}).size() == 2);
}

TEST_CASE("a mark is not needed where indexes say where documents begin", "[batch]") {
  Warned warned;
  const auto of = [&](const std::string& data, const std::string& mask) {
    return warned.of({no_validation, data, "data.document_mask=" + mask});
  };
  const std::vector<TokenId> document(60, 7);
  const std::string two = train_on(warned.folder() / "two", TokenFileFormat::megatron, {document, document});
  const std::string one = train_on(warned.folder() / "one", TokenFileFormat::megatron, {document});
  const std::string none = train_on(warned.folder() / "none", TokenFileFormat::nanogpt, {document});
  CHECK(of(two, "{}").empty());
  check_one(of(two, R"({"end_of_text": 7})"), {"data.document_mask.end_of_text: 7 ends no document"});
  CHECK(of(R"(data.train=[{"path": "HERE/two.bin"}, {"path": "HERE/text.txt"}])", R"({"end_of_text": 10})").empty());
  check_one(of(one, "{}"), {"data.train.0.path: ", "its index has one document alone"});
  try {
    of(none, "{}");
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_data);
    CHECK_THAT(error.what(), Catch::Contains("/data/train/0/path") && Catch::Contains("none.bin") &&
                                 Catch::Contains("without an .idx") &&
                                 Catch::Contains("data.document_mask.end_of_text must be"));
  }
}

TEST_CASE("files that are trained on and evaluated are said", "[batch]") {
  Warned warned;
  check_one(warned.of({}), {"data.validation: ", "text.txt is trained on as well"});
  warned.write("more/a.txt", training_text());
  warned.write("more/b.txt", training_text());
  check_one(warned.of({R"(data.train=[{"path": "HERE/more"}])", R"(data.validation=[{"path": "HERE/more/*.txt"}])"}),
            {"more/a.txt and 1 more are trained on"});
  CHECK(warned.of({R"(data.validation=[{"path": "HERE/more"}])"}).empty());
}

TEST_CASE("an order of rarity of one sample is said", "[batch]") {
  Warned warned;
  warned.write("short.txt", std::string(30, 'x'));
  check_one(warned.of({no_validation, R"(data.train=[{"path": "HERE/text.txt"}, {"path": "HERE/short.txt"}])",
                       R"(data.curriculum.vocabulary_rarity={"steps": 5})"}),
            {"data.train.1.path: ", "has one sample"});
}

TEST_CASE("packing that puts no two documents together is said", "[batch]") {
  Warned warned;
  const auto line = [](const std::string& answer) { return R"({"prompt": "a", "completion": ")" + answer + "\"}\n"; };
  warned.write("long.jsonl", line(std::string(20, 'b')) + line(std::string(15, 'c')));
  warned.write("short.jsonl", line("b") + line("c"));
  const auto of = [&](const std::string& file, const std::string& packing) {
    return warned.of({no_validation, R"(data.train=[{"path": "HERE/)" + file + R"("}])",
                      R"(data.fine_tuning={"template": "chatml", "packing": )" + packing + "}"});
  };
  check_one(of("long.jsonl", "true"), {"data.fine_tuning.packing: no two documents fit into a sequence of 24 tokens"});
  CHECK(of("long.jsonl", "false").empty());
  CHECK(of("short.jsonl", "true").empty());
}

}  // namespace llmtrain::test
