// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "core/recipe/recipe_difference.h"
#include "tests/core/recipe/good_recipe.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

using test::Json;
using test::lines_thrown_by;

// As transformers 5 writes it, with what it calls differently from a recipe.
constexpr const char* llama_config = R"({"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 48,
  "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 112, "vocab_size": 320,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"},
  "tie_word_embeddings": true, "initializer_range": 0.03})";

constexpr const char* mixtral_config = R"({"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 32,
  "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 64, "vocab_size": 320, "head_dim": 8,
  "max_position_embeddings": 64, "num_local_experts": 4, "num_experts_per_tok": 2})";

Json recipe_from(const std::string& source) {
  return {{"model", {{"from", source}}}, {"batch", {{"global", 4}, {"micro", 2}}}, {"training", {{"steps", 3}}}};
}

// A folder with recipes and models beside them.
class Models {
 public:
  Models() {
    directory_.write("llama/config.json", llama_config);
    directory_.write("mixtral/config.json", mixtral_config);
  }
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
  void write(const std::string& name, const std::string& text) { directory_.write(name, text); }
  Recipe read(const Json& json) { return read_recipe(directory_.write("recipe.json", json.dump())); }
  std::vector<std::string> complaints(const Json& json) {
    return lines_thrown_by([&] { read(json); });
  }

 private:
  test::TemporaryDirectory directory_;
};

TEST_CASE("A model's keys and weights come from its Hugging Face folder", "[recipe]") {
  Models models;
  const Recipe recipe = models.read(recipe_from("hf:llama"));
  const ModelRecipe& model = recipe.model;
  CHECK(model.architecture == Architecture::llama);
  CHECK(std::vector{model.layers, model.hidden_size, model.heads, model.kv_heads, model.head_dim} ==
        std::vector<std::int64_t>{3, 48, 6, 2, 10});
  CHECK(std::vector{model.ffn_hidden_size, model.vocab_size, model.max_sequence_length} ==
        std::vector<std::int64_t>{112, 320, 64});
  CHECK(model.rope_theta == 5e5);
  CHECK(model.norm_eps == 1e-6);
  CHECK(model.init_std == 0.03);
  CHECK(model.tie_embeddings);
  CHECK(recipe.batch.sequence_length == 64);
  CHECK(recipe.training.init_from == "hf:" + std::filesystem::canonical(models.path("llama")).string());
}

TEST_CASE("A recipe that took its model from somewhere is written without that source", "[recipe]") {
  Models models;
  const Recipe recipe = models.read(recipe_from("hf:mixtral"));
  CHECK_FALSE(to_json(recipe)["model"].contains("from"));
  // In a folder without the model.
  CHECK(parse_recipe(to_json(recipe).dump(), "r.json", "/elsewhere") == recipe);
}

TEST_CASE("What concerns training alone and the source of weights may be given beside model.from", "[recipe]") {
  Models models;
  Json json = recipe_from("hf:mixtral");
  json["model"].update({{"dropout", 0.1}, {"hidden_size", 32}, {"moe", {{"balance_coefficient", 0.5}}}});
  json["training"]["init_from"] = nullptr;
  const Recipe recipe = models.read(json);
  CHECK(recipe.model.dropout == 0.1);
  CHECK(recipe.model.moe->balance_coefficient == 0.5);
  CHECK(recipe.model.moe->experts == 4);
  CHECK_FALSE(recipe.training.init_from);
}

TEST_CASE("Every key that disagrees with model.from is refused", "[recipe]") {
  Models models;
  Json json = recipe_from("hf:mixtral");
  json["model"].update({{"layers", 5}, {"qkv_bias", true}, {"moe", {{"top_k", 1}}}, {"norm_eps", "small"}});
  const auto lines = models.complaints(json);
  REQUIRE(lines.size() == 4);
  const std::string file = std::filesystem::canonical(models.path("mixtral")).string() + "/config.json";
  CHECK_THAT(lines[0], Catch::Contains("/model/layers: is 5, but 2 in " + file + "; must be 2 or left out"));
  CHECK_THAT(lines[1], Catch::Contains("/model/qkv_bias: is true, but false in "));
  CHECK_THAT(lines[2], Catch::Contains("/model/moe/top_k: is 1, but 2 in "));
  // A key of the wrong type is one problem, not two.
  CHECK_THAT(lines[3], Catch::Contains("/model/norm_eps: \"small\" is a string"));
}

TEST_CASE("A model may have more tokens than model.from's, and not fewer", "[recipe]") {
  Models models;
  Json json = recipe_from("hf:llama");
  json["model"]["vocab_size"] = 384;
  const Recipe recipe = models.read(json);
  CHECK(recipe.model.vocab_size == 384);
  CHECK(recipe.training.init_from);
  json["model"]["vocab_size"] = 319;
  const auto lines = models.complaints(json);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("/model/vocab_size: is 319, but 320 in ") &&
                           Catch::EndsWith("must be 320 or more, or left out, as model.from gives it"));
}

constexpr const char* gpt2_config = R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4,
  "n_positions": 64, "vocab_size": 320})";

TEST_CASE("Rotary positions may be others than model.from's, since no weight depends on them", "[recipe]") {
  Models models;
  Json json = recipe_from("hf:llama");
  json["model"].update({{"rope_theta", 1e6}, {"max_sequence_length", 256}});
  json["model"]["rope_scaling"] = {{"type", "yarn"}, {"factor", 4}};
  const Recipe recipe = models.read(json);
  CHECK(recipe.model.rope_theta == 1e6);
  CHECK(recipe.model.max_sequence_length == 256);
  CHECK(recipe.batch.sequence_length == 256);
  REQUIRE(recipe.model.rope_scaling);
  // The length before the scaling is the origin's.
  CHECK(recipe.model.rope_scaling->original_max_sequence_length == 64);
  CHECK(recipe.model.rope_scaling->attention_factor == Approx(0.1 * std::log(4) + 1).epsilon(1e-15));
}

TEST_CASE("Nothing of the origin's scaling is mixed into another one", "[recipe]") {
  Models models;
  Json config = Json::parse(llama_config);
  config["rope_parameters"] = {{"rope_type", "yarn"},
                               {"factor", 2},
                               {"original_max_position_embeddings", 32},
                               {"beta_fast", 16},
                               {"rope_theta", 5e5}};
  models.write("scaled/config.json", config.dump());
  Json json = recipe_from("hf:scaled");
  CHECK(models.read(json).model.rope_scaling->attention_factor == Approx(0.1 * std::log(2) + 1).epsilon(1e-15));
  json["model"]["rope_scaling"] = {{"type", "yarn"}, {"factor", 8}};
  const RopeScalingRecipe scaling = models.read(json).model.rope_scaling.value();
  CHECK(scaling.attention_factor == Approx(0.1 * std::log(8) + 1).epsilon(1e-15));
  CHECK(scaling.beta_fast == 32);
  CHECK(scaling.original_max_sequence_length == 32);
  json["model"]["rope_scaling"] = nullptr;
  CHECK_FALSE(models.read(json).model.rope_scaling);
}

TEST_CASE("Lengths that the origin's weights or window do not allow are refused", "[recipe]") {
  Models models;
  models.write("gpt2/config.json", gpt2_config);
  Json json = recipe_from("hf:gpt2");
  json["model"]["max_sequence_length"] = 128;
  auto lines = models.complaints(json);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("/model/max_sequence_length: is 128, but 64 in "));
  Json config = Json::parse(llama_config);
  config.update({{"model_type", "mistral"}, {"sliding_window", 64}});
  models.write("mistral/config.json", config.dump());
  json = recipe_from("hf:mistral");
  CHECK_NOTHROW(models.read(json));
  json["model"]["max_sequence_length"] = 65;
  lines = models.complaints(json);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("/model/max_sequence_length: 65 is beyond the window of 64 tokens in "));
}

TEST_CASE("A model can be that of a checkpoint or a run", "[recipe]") {
  Models models;
  const Json written = to_json(test::parse(test::small_recipe(), {"model.head_dim=12"}));
  models.write("run/recipe.json", written.dump());
  models.write("checkpoint/manifest.json", Json{{"recipe", written}}.dump());
  for (const std::string source : {"run", "checkpoint"}) {
    CAPTURE(source);
    const Recipe recipe = models.read(recipe_from(source));
    CHECK(recipe.model.head_dim == 12);
    CHECK(model_differences(recipe.model, test::parse(written).model).empty());
    CHECK(recipe.training.init_from == std::filesystem::canonical(models.path(source)).string());
  }
}

TEST_CASE("A source of a model that cannot be read is reported with the key", "[recipe]") {
  Models models;
  models.write("empty/notes.txt", "");
  models.write("broken/config.json", R"({"model_type": "marian"})");
  models.write("damaged/recipe.json", R"({"model": 5})");
  const auto check = [&](const std::string& source, ExitCode code, const std::string& words) {
    CAPTURE(source);
    try {
      models.read(recipe_from(source));
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == code);
      CHECK_THAT(error.what(), Catch::Contains("recipe.json: /model/from: ") && Catch::Contains(words));
    }
  };
  check("hf:none", ExitCode::missing_input, "hf download");
  check("hf:empty", ExitCode::missing_input, "config.json");
  check("hf:broken", ExitCode::bad_data, "\"marian\"");
  check("empty", ExitCode::missing_input, "neither manifest.json nor recipe.json");
  check("damaged", ExitCode::bad_data, "incompatible version");
}

TEST_CASE("A model's tokenizer and chat template come with it", "[recipe]") {
  Models models;
  Json json = recipe_from("hf:llama");
  json["data"]["fine_tuning"] = Json::object();
  const std::string folder = std::filesystem::canonical(models.path("llama")).string();
  CHECK(models.read(json).data.tokenizer == TokenizerRecipe{});
  CHECK(models.read(json).data.fine_tuning->chat_template == ChatTemplateRecipe{});
  models.write("llama/tokenizer.model", "");
  CHECK(models.read(json).data.tokenizer == TokenizerRecipe{TokenizerKind::sentencepiece, folder + "/tokenizer.model"});
  models.write("llama/tokenizer.json", "{}");
  models.write("llama/tokenizer_config.json", R"({"chat_template": null})");
  CHECK(models.read(json).data.tokenizer == TokenizerRecipe{TokenizerKind::huggingface, folder + "/tokenizer.json"});
  CHECK(models.read(json).data.fine_tuning->chat_template == ChatTemplateRecipe{});
  models.write("llama/tokenizer_config.json", R"({"chat_template": "{{ x }}"})");
  const ChatTemplateRecipe own{ChatTemplate::file, folder + "/tokenizer_config.json"};
  CHECK(models.read(json).data.fine_tuning->chat_template == own);
  json["data"]["fine_tuning"]["template"] = "auto";
  CHECK(models.read(json).data.fine_tuning->chat_template == own);
  models.write("llama/chat_template.jinja", "{{ x }}");
  CHECK(models.read(json).data.fine_tuning->chat_template.file == folder + "/chat_template.jinja");
  // A run hands on what it was trained with.
  models.write("run/recipe.json", to_json(models.read(json)).dump());
  json["model"]["from"] = "run";
  CHECK(models.read(json).data.fine_tuning->chat_template.file == folder + "/chat_template.jinja");
  CHECK(models.read(json).data.tokenizer.file == folder + "/tokenizer.json");
  // What the recipe says counts.
  json["data"] = Json::parse(R"({"tokenizer": "bytes", "fine_tuning": {"template": "llama3"}})");
  CHECK(models.read(json).data.tokenizer == TokenizerRecipe{});
  CHECK(models.read(json).data.fine_tuning->chat_template.kind == ChatTemplate::llama3);
}

TEST_CASE("A source that is no text is one problem of the key", "[recipe]") {
  Models models;
  Json json = test::small_recipe();
  json["model"]["from"] = 5;
  const auto lines = models.complaints(json);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("/model/from: 5 is a number"));
}

}  // namespace
}  // namespace llmtrain
