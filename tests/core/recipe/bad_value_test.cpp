// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/core/recipe/good_recipe.h"

namespace llmtrain {
namespace {

using test::complaints;
using test::Json;
using test::small_recipe;

// One change to a valid recipe that causes exactly one error.
struct BadValue {
  std::string where;               // JSON pointer that gets `value`
  std::string value;               // JSON
  std::string pointer;             // in the message
  std::vector<std::string> words;  // that the message must contain
};

void check_one_complaint(const BadValue& bad) {
  CAPTURE(bad.where, bad.value);
  auto json = small_recipe();
  json[Json::json_pointer(bad.where)] = Json::parse(bad.value);
  const auto lines = complaints(json.dump());
  CAPTURE(lines);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::StartsWith("r.json: " + bad.pointer + ": "));
  for (const auto& words : bad.words) CHECK_THAT(lines[0], Catch::Contains(words));
}

TEST_CASE("A value of the wrong type or out of range is refused with its rule", "[recipe]") {
  const std::vector<BadValue> cases = {
      {"/seed", "-1", "/seed", {"-1 is out of range", "from 0 to 2^63 - 1"}},
      {"/seed", "9223372036854775808", "/seed", {"9223372036854775808 is out of range"}},
      {"/seed", "1e30", "/seed", {"1e+30 is not a whole number in 64 bits"}},
      {"/name", "5", "/name", {"5 is a number", "a text"}},
      {"/name", R"("")", "/name", {"cannot be used"}},
      {"/name", R"("a/b")", "/name", {"\"a/b\" cannot be used", "without slash"}},
      {"/name", R"("..")", "/name", {"cannot be used"}},
      {"/name", R"("a\nb")", "/name", {"\"a\\nb\" cannot be used"}},
      {"/description", "null", "/description", {"is null; must be a text"}},
      {"/model/architecture",
       R"("gpt3")",
       "/model/architecture",
       {"\"gpt3\" is unknown", R"("gpt2", "gpt-rope", "llama", "bert", "roberta", "bart", "t5", "vit" or "resnet")",
        "did you mean \"gpt2\"?"}},
      {"/model/architecture", R"("GPT_rope")", "/model/architecture", {"did you mean \"gpt-rope\"?"}},
      {"/model/architecture", "1", "/model/architecture", {"1 is a number"}},
      {"/model/layers", "0", "/model/layers", {"0 is out of range", "from 1 to 10000"}},
      {"/model/layers", "1000000000", "/model/layers", {"1000000000 is out of range"}},
      {"/model/layers", "1e6", "/model/layers", {"1000000.0 is out of range", "from 1 to 10000"}},
      {"/model/layers", "4.5", "/model/layers", {"4.5 is not a whole number"}},
      {"/model/layers", R"("4")", "/model/layers", {"\"4\" is a string", "whole number", "did you mean 4?"}},
      {"/model/layers", "true", "/model/layers", {"true is a boolean", "whole number"}},
      {"/model/layers", "[4]", "/model/layers", {"is a list", "whole number"}},
      {"/model/hidden_size", "1000000000", "/model/hidden_size", {"out of range"}},
      {"/model/heads", "-8", "/model/heads", {"-8 is out of range"}},
      {"/model/vocab_size", "null", "/model/vocab_size", {"is null"}},
      {"/model/dropout", "1", "/model/dropout", {"1 is out of range", "from 0 to below 1"}},
      {"/model/dropout", "-0.1", "/model/dropout", {"-0.1 is out of range"}},
      {"/model/norm_eps", "0", "/model/norm_eps", {"above 0"}},
      {"/model/bias", R"("true")", "/model/bias", {"\"true\" is a string", "true or false", "did you mean true?"}},
      {"/model/bias", "1", "/model/bias", {"1 is a number; must be true or false"}},
      {"/model/moe", "8", "/model/moe", {"8 is a number", "null or an object"}},
      {"/model/moe", "{}", "/model/moe/experts", {"is missing", "whole number"}},
      {"/model/moe", R"({"experts": 4, "router": "linaer"})", "/model/moe/router", {"did you mean \"linear\"?"}},
  };
  for (const auto& bad : cases) check_one_complaint(bad);
}

TEST_CASE("Sections, lists and words of the wrong kind are refused with their rule", "[recipe]") {
  const std::vector<BadValue> cases = {
      {"/data", R"([])", "/data", {"is a list; must be an object"}},
      {"/data/tokenizer", R"("byte")", "/data/tokenizer", {"\"byte\" is unknown", "did you mean \"bytes\"?"}},
      {"/data/tokenizer", "{}", "/data/tokenizer", {"is an empty object", "{\"sentencepiece\": FILE}"}},
      {"/data/tokenizer", R"({"sentencepiece": "a", "huggingface": "b"})", "/data/tokenizer", {"names two tokenizers"}},
      {"/data/tokenizer", R"({"sentencepiece": 3})", "/data/tokenizer/sentencepiece", {"3 is a number", "a path"}},
      {"/data/tokenizer",
       R"("tokenizer.json")",
       "/data/tokenizer",
       {R"(did you mean {"huggingface": "tokenizer.json"}?)"}},
      {"/data/tokenizer", R"("a.model")", "/data/tokenizer", {R"(did you mean {"sentencepiece": "a.model"}?)"}},
      {"/data/fine_tuning",
       R"({"template": "chat.jinja"})",
       "/data/fine_tuning/template",
       {R"(did you mean {"file": "chat.jinja"}?)", R"("auto", "chatml", "llama3" or {"file": FILE})"}},
      {"/data/fine_tuning", R"({"template": {}})", "/data/fine_tuning/template", {"is an empty object"}},
      {"/data/fine_tuning", R"({"date": "26.7.2024"})", "/data/fine_tuning/date", {"is no date", "as in 2024-07-26"}},
      {"/data/fine_tuning", R"({"date": "2023-02-29"})", "/data/fine_tuning/date", {"is no date"}},
      {"/data/tokenizer", R"({"hugingface": "b"})", "/data/tokenizer/hugingface", {"did you mean \"huggingface\"?"}},
      {"/data/train",
       R"("a.txt")",
       "/data/train",
       {"\"a.txt\" is a string", "a list of objects", R"(did you mean [{"path": "a.txt"}]?)"}},
      {"/data/train",
       R"(["a.txt"])",
       "/data/train/0",
       {"\"a.txt\" is a string", "an object with a path", R"(did you mean {"path": "a.txt"}?)"}},
      {"/data/train", R"([{"weight": 1}])", "/data/train/0/path", {"is missing", "a path"}},
      {"/data/train", R"([{"path": "a.bin", "weight": 0}])", "/data/train/0/weight", {"0 is out of range", "above 0"}},
      {"/data/train", R"([{"path": "a.bin"}, {"path": ""}])", "/data/train/1/path", {"cannot be used"}},
      {"/data/train", R"([{"path": "a\u0000b"}])", "/data/train/0/path", {"cannot be used"}},
      {"/data/train", R"([{"paht": "a.bin"}])", "/data/train/0/paht", {"did you mean \"path\"?"}},
      {"/training/init_from", "5", "/training/init_from", {"5 is a number", "null, a path"}},
      {"/training/init_from", R"("hf:")", "/training/init_from", {"cannot be used"}},
      {"/training/optimizer", R"({"name": "adam"})", "/training/optimizer/name", {"did you mean \"adamw\"?"}},
      {"/training/optimizer", R"({"beta1": 1})", "/training/optimizer/beta1", {"to below 1"}},
      {"/training/learning_rate",
       "0.001",
       "/training/learning_rate",
       {"must be an object; did you mean /training/learning_rate/peak?"}},
      {"/precision", R"("bf16")", "/precision", {"must be an object; did you mean /precision/compute?"}},
      {"/precision", R"({"compute": "fp8"})", "/precision/compute", {"did you mean /precision/fp8_level?"}},
      {"/precision", R"({"compute": "bfloat16"})", "/precision/compute", {"did you mean \"bf16\"?"}},
      {"/training/learning_rate", R"({"peak": "1e-3"})", "/training/learning_rate/peak", {"did you mean 0.001?"}},
      {"/precision", R"({"compute": "fp64"})", "/precision/compute", {"\"fp64\" is unknown", "fp32"}},
      {"/precision", R"({"fp8_level": "o1"})", "/precision/fp8_level", {"did you mean \"O1\"?"}},
      {"/parallel", R"({"data": "all"})", "/parallel/data", {"\"all\" is a string", "\"auto\" or a whole number"}},
      {"/parallel", R"({"zero_stage": 4})", "/parallel/zero_stage", {"4 is out of range", "from 0 to 3"}},
      {"/pipeline", R"({"balance": "layer"})", "/pipeline/balance", {"did you mean \"layers\"?"}},
      {"/pipeline", R"({"balance": [4.5]})", "/pipeline/balance/0", {"4.5 is not a whole number"}},
      {"/memory", R"({"offload": true})", "/memory/offload", {"must be an object"}},
      {"/memory", R"({"offload": {"optimizer": 1}})", "/memory/offload/optimizer", {"must be false, true or \"disk\""}},
      {"/cluster", R"({"device": "gpu"})", "/cluster/device", {"\"gpu\" is unknown", "did you mean \"cuda\"?"}},
      {"/launch", R"({"ranks": 0})", "/launch/ranks", {"0 is out of range"}},
      {"/checkpoint", R"({"keep": -1})", "/checkpoint/keep", {"-1 is out of range"}},
      {"/log", R"({"directory": ""})", "/log/directory", {"cannot be used"}},
  };
  for (const auto& bad : cases) check_one_complaint(bad);
}

TEST_CASE("An unknown key is refused with the key that was probably meant", "[recipe]") {
  const std::vector<BadValue> cases = {
      {"/modle", "{}", "/modle", {"is not a recipe key", "llmtrain schema", "did you mean \"model\"?"}},
      {"/model/hiden_size", "64", "/model/hiden_size", {"did you mean \"hidden_size\"?"}},
      {"/model/kv_haeds", "4", "/model/kv_haeds", {"did you mean \"kv_heads\"?"}},
      {"/parallel/tp", "2", "/parallel/tp", {"did you mean \"tensor\"?"}},
      {"/tp", "2", "/tp", {"did you mean /parallel/tensor?"}},
      {"/training/lr", "0.1", "/training/lr", {"did you mean /training/learning_rate/peak?"}},
      {"/training/zero_stage", "1", "/training/zero_stage", {"did you mean /parallel/zero_stage?"}},
      {"/model/n_embd", "64", "/model/n_embd", {"did you mean \"hidden_size\"?"}},
      {"/batch/batch_size", "64", "/batch/batch_size", {"did you mean \"global\"?"}},
      {"/batch/size", "64", "/batch/size", {"did you mean \"global\"?"}},
      {"/batch/micro_batch", "2", "/batch/micro_batch", {"did you mean \"micro\"?"}},
      {"/training/global_batch", "64", "/training/global_batch", {"did you mean /batch/global?"}},
      {"/training/gradient_accumulation_steps",
       "8",
       "/training/gradient_accumulation_steps",
       {"did you mean /batch/global?"}},
      {"/checkpoint", R"({"path": "a"})", "/checkpoint/path", {"did you mean /log/directory?"}},
      {"/checkpoint", R"({"interval": 10})", "/checkpoint/interval", {"did you mean \"every\"?"}},
      {"/log", R"({"interval": 10})", "/log/interval", {"did you mean \"every\"?"}},
      {"/log", R"({"dir": "a"})", "/log/dir", {"did you mean \"directory\"?"}},
      {"/model/vocab", "256", "/model/vocab", {"did you mean \"vocab_size\"?"}},
      {"/model/a~b~1c", "1", "/model/a~0b~1c", {"is not a recipe key"}},
      {"/model/line\nbreak", "1", "/model/line\\nbreak", {"is not a recipe key"}},
  };
  for (auto bad : cases) {
    if (bad.where == "/model/a~b~1c") bad.where = "/model/a~0b~1c";
    check_one_complaint(bad);
  }
}

TEST_CASE("Every section may have a description, which is a text", "[recipe]") {
  auto json = small_recipe();
  json["data"]["train"] = Json::parse(R"([{"path": "a.bin", "description": "of last year"}])");
  for (const std::string section : {"model", "batch", "training", "parallel"}) json[section]["description"] = "why";
  json["training"]["learning_rate"]["description"] = "as before";
  CHECK(complaints(json.dump()).empty());
  CHECK_FALSE(to_json(test::parse(json))["batch"].contains("description"));
  json["batch"]["description"] = 3;
  CHECK(complaints(json.dump()) ==
        std::vector<std::string>{"r.json: /batch/description: 3 is a number; must be a text"});
  // A value is no section.
  json = small_recipe();
  json["data"]["tokenizer"] = Json::parse(R"({"huggingface": "a.json", "description": "why"})");
  CHECK(complaints(json.dump()).size() == 1);
}

TEST_CASE("A key that resembles no other gets no hint", "[recipe]") {
  auto json = small_recipe();
  json["wholly_different"] = 1;
  CHECK(complaints(json.dump()) ==
        std::vector<std::string>{"r.json: /wholly_different: is not a recipe key; llmtrain schema lists all keys"});
}

TEST_CASE("A required key that is missing is named with its rule", "[recipe]") {
  for (const std::string where : {"/model/layers", "/model/hidden_size", "/model/heads", "/model/vocab_size",
                                  "/model/max_sequence_length", "/batch/global", "/batch/micro", "/training/steps"}) {
    auto json = small_recipe();
    const Json::json_pointer pointer(where);
    json[pointer.parent_pointer()].erase(pointer.back());
    const auto lines = complaints(json.dump());
    CAPTURE(where, lines);
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::StartsWith("r.json: " + where + ": is missing; must be a whole number from 1 to "));
  }
}

TEST_CASE("A missing section is one error that lists its required keys", "[recipe]") {
  CHECK(complaints("{}") ==
        std::vector<std::string>{"r.json: /model: is missing; must be an object with layers, hidden_size, heads, "
                                 "vocab_size, max_sequence_length",
                                 "r.json: /batch: is missing; must be an object with global, micro",
                                 "r.json: /training: is missing; must be an object with steps"});
}

TEST_CASE("A misspelled required key is one error, not two", "[recipe]") {
  auto json = small_recipe();
  json["model"].erase("layers");
  json["model"]["layer"] = 4;
  json["batch_"] = json["batch"];
  json.erase("batch");
  CHECK(complaints(json.dump()).size() == 2);
}

TEST_CASE("A recipe that is not an object is one error", "[recipe]") {
  for (const std::string text : {"[]", "5", "null", "\"recipe\"", "true"}) {
    const auto lines = complaints(text);
    CAPTURE(text, lines);
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::StartsWith("r.json: /: ") && Catch::Contains("must be an object"));
  }
}

TEST_CASE("Six errors give six lines, in the order of the recipe", "[recipe]") {
  const auto lines = complaints(R"({
    "training": {"steps": 0, "learning_rate": {"peak": 1e-4, "minimum": 1e-3}},
    "model": {"layers": 4, "layers": 5, "hidden_size": "64", "heads": 8, "kv_head": 3, "vocab_size": 512,
              "max_sequence_length": 128},
    "batch": {"global": 7, "micro": 2}})");
  CAPTURE(lines);
  const std::vector<std::string> pointers = {"/training/steps", "/training/learning_rate/minimum",
                                             "/model/layers",   "/model/hidden_size",
                                             "/model/kv_head",  "/batch/global"};
  REQUIRE(lines.size() == pointers.size());
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    CHECK_THAT(lines[i], Catch::StartsWith("r.json: " + pointers[i] + ": "));
  }
}

TEST_CASE("Errors are reported up to a limit", "[recipe]") {
  auto json = small_recipe();
  for (int i = 0; i < 5000; ++i) json["unheard_of_" + std::to_string(i)] = i;
  CHECK(complaints(json.dump()).size() == 1001);
}

}  // namespace
}  // namespace llmtrain
