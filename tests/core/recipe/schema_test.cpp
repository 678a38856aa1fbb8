// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <utility>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>
#include <vector>

#include "core/recipe/keys/key_table.h"
#include "tests/core/recipe/good_recipe.h"

namespace llmtrain {
namespace {

using test::Json;
using test::large_recipe;
using test::small_recipe;

// An independent implementation of JSON Schema.
class SchemaJudge {
 public:
  SchemaJudge() {
    const nlohmann::json text = recipe_schema();
    valijson::adapters::NlohmannJsonAdapter adapter(text);
    valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(adapter, schema_);
  }
  bool accepts(const nlohmann::json& recipe) {
    valijson::adapters::NlohmannJsonAdapter adapter(recipe);
    return valijson::Validator(valijson::Validator::kStrongTypes).validate(schema_, adapter, nullptr);
  }

 private:
  valijson::Schema schema_;
};

void collect_keys(const Json& schema, const std::string& pointer, std::set<std::string>& keys) {
  if (schema.contains("oneOf")) {
    for (const auto& kind : schema["oneOf"]) collect_keys(kind, pointer, keys);
  }
  if (schema.contains("items")) collect_keys(schema["items"], pointer + "/0", keys);
  if (!schema.contains("properties")) return;
  for (const auto& [name, property] : schema["properties"].items()) {
    keys.insert(pointer + "/" + name);
    collect_keys(property, pointer + "/" + name, keys);
  }
}

TEST_CASE("The schema accepts good recipes", "[recipe]") {
  SchemaJudge judge;
  for (const auto& json : {small_recipe(), large_recipe()}) {
    CHECK(judge.accepts(json));
    CHECK(judge.accepts(to_json(test::parse(json))));
  }
  auto json = small_recipe();
  json["model"] = {{"from", "hf:models/gpt2"}, {"description", "why"}};
  CHECK(judge.accepts(json));
}

TEST_CASE("The schema refuses bad recipes", "[recipe]") {
  SchemaJudge judge;
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"/extra", "1"},
      {"/model/extra", "1"},
      {"/model/description", "1"},
      {"/model/layers", "0"},
      {"/model/layers", "4.5"},
      {"/model/layers", R"("4")"},
      {"/model/dropout", "1"},
      {"/model/norm_eps", "0"},
      {"/model/architecture", R"("gpt3")"},
      {"/model/moe", "{}"},
      {"/model/moe", R"({"experts": 4, "expert": 4})"},
      {"/name", R"("a/b")"},
      {"/data", R"({"tokenizer": "words"})"},
      {"/data", R"({"tokenizer": {"sentencepiece": "a", "huggingface": "b"}})"},
      {"/data", R"({"train": [{"weight": 1}]})"},
      {"/data", R"({"train": [{"path": "a", "weight": 0}]})"},
      {"/training/init_from", "5"},
      {"/parallel", R"({"data": "all"})"},
      {"/parallel", R"({"data": 0})"},
      {"/pipeline", R"({"balance": "even"})"},
      {"/pipeline", R"({"balance": [1.5]})"},
      {"/batch", "{}"},
      {"/model", "null"},
      {"/model", "{}"},
      {"/model", R"({"from": null})"},
      {"/model", R"({"from": 5})"},
  };
  for (const auto& [pointer, value] : changes) {
    CAPTURE(pointer, value);
    auto json = small_recipe();
    json[Json::json_pointer(pointer)] = Json::parse(value);
    CHECK_FALSE(judge.accepts(json));
  }
  CHECK_FALSE(judge.accepts(Json::object()));
}

TEST_CASE("The schema, the reference and a written recipe have the same keys", "[recipe]") {
  std::set<std::string> in_schema;
  collect_keys(recipe_schema(), "", in_schema);
  const auto pointers = key_pointers();
  CHECK(in_schema == std::set<std::string>(pointers.begin(), pointers.end()));
  CHECK(in_schema.size() == pointers.size());

  const auto written = to_json(test::parse(large_recipe()));
  for (const auto& pointer : pointers) {
    CAPTURE(pointer);
    // A tokenizer has one of two files; what model.from names is written out; a mask goes with neither dropout nor
    // conversations, and these with neither hidden tokens, labels, answers, damaged texts nor pairs, of which targets
    // are written; attention is latent or has groups of queries; states of linear attention follow whole sequences;
    // further tokens are predicted without adapters, classes by encoders, and those of images by models that read no
    // tokens.
    CHECK((written.contains(Json::json_pointer(pointer)) || pointer == "/data/tokenizer/huggingface" ||
           pointer == "/model/from" || pointer.starts_with("/model/latent_attention/") ||
           pointer.starts_with("/model/resnet/") || pointer.starts_with("/model/linear_attention/") ||
           pointer.starts_with("/model/multi_token_prediction/") || pointer.starts_with("/model/classifier/") ||
           pointer == "/data/document_mask/end_of_text" || pointer.starts_with("/data/masking/") ||
           pointer.starts_with("/data/labels/") || pointer.starts_with("/data/pairs/") ||
           pointer.starts_with("/data/spans/") || pointer.starts_with("/data/images/") ||
           pointer.starts_with("/data/denoising/") || pointer.starts_with("/training/generation/") ||
           pointer.starts_with("/model/image/")));
  }
  const auto reference = recipe_reference_markdown();
  for (auto pointer : pointers) {
    std::replace(pointer.begin() + 1, pointer.end(), '/', '.');
    CHECK_THAT(reference, Catch::Contains("`" + pointer.substr(1) + "`"));
  }
}

TEST_CASE("Every property of the schema has a description and a default, or is required", "[recipe]") {
  const auto schema = recipe_schema();
  CHECK(schema["$schema"] == "http://json-schema.org/draft-07/schema#");
  for (const auto& pointer : key_pointers()) {
    if (pointer.find("/0/") != std::string::npos || pointer.find("tokenizer/") != std::string::npos ||
        pointer.ends_with("template/file"))
      continue;
    CAPTURE(pointer);
    std::string path;
    for (const auto c : pointer) path += c == '/' ? std::string("/properties/") : std::string(1, c);
    const auto& property = schema[Json::json_pointer(path)];
    REQUIRE(property.contains("description"));
    const auto description = property["description"].get<std::string>();
    CHECK(description.size() > 5);
    const auto parent = schema[Json::json_pointer(path).parent_pointer().parent_pointer()];
    auto required = parent.value("required", Json::array());
    // What has to be there where nothing stands in for it.
    if (parent.contains("anyOf")) required = parent["anyOf"].back()["required"];
    const auto name = pointer.substr(pointer.rfind('/') + 1);
    const bool is_required = std::find(required.begin(), required.end(), name) != required.end();
    CHECK((is_required || property.contains("default") || property.contains("properties") ||
           description.find("Default: ") != std::string::npos));
  }
}

}  // namespace
}  // namespace llmtrain
