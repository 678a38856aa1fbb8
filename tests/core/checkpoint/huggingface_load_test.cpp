// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "core/huggingface/huggingface.h"
#include "core/recipe/model_from/huggingface_config.h"
#include "tests/core/checkpoint/huggingface_fixture.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using test::check_error;
using test::gpt2_model;
using test::Json;
using test::JsonCase;
using test::llama_model;
using test::named;
using test::SavedModel;
using test::Strings;

TEST_CASE("weights survive export and import") {
  SavedModel(gpt2_model()).check_same();
  SavedModel(llama_model()).check_same();
}

// The first two elements of a saved tensor.
std::pair<float, float> first_two(const SafetensorsFile& file, const std::string& name) {
  const auto entry = std::ranges::find(file.entries(), name, &SafetensorsEntry::name);
  INFO(name);
  REQUIRE(entry != file.entries().end());
  std::pair<float, float> values;
  std::memcpy(&values.first, file.bytes(*entry).data(), sizeof values.first);
  std::memcpy(&values.second, file.bytes(*entry).data() + sizeof values.first, sizeof values.second);
  return values;
}

// Export and import share one table of names: if two were swapped, nothing would be lost on the way. The weights of
// this model count up in the order in which they are used, and so must those of a layer of transformers.
TEST_CASE("transformers uses the weights of a layer in the order in which this model does") {
  const auto check_order = [](const ModelRecipe& model, const std::string& layer, const Strings& names) {
    const SafetensorsFile file(SavedModel(model).path() / "model.safetensors");
    float last = -1;
    for (const std::string& name : names) {
      const float first = first_two(file, layer + name).first;
      INFO(name);
      CHECK(first > last);
      last = first;
    }
  };
  check_order(llama_model(), "model.layers.1.",
              {"input_layernorm.weight", "self_attn.q_proj.weight", "self_attn.k_proj.weight",
               "self_attn.v_proj.weight", "self_attn.o_proj.weight", "post_attention_layernorm.weight",
               "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"});
  check_order(
      gpt2_model(), "transformer.h.1.",
      {"ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
       "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"});
}

// Also where a matrix is square, so that no shape would tell.
TEST_CASE("GPT-2 of transformers has its matrices transposed, Llama has not") {
  const SafetensorsFile gpt2(SavedModel(gpt2_model()).path() / "model.safetensors");
  for (const auto& [name, inputs] :
       std::map<std::string, float>{{"attn.c_attn", 8}, {"attn.c_proj", 8}, {"mlp.c_fc", 8}, {"mlp.c_proj", 32}}) {
    INFO(name);
    const auto [first, second] = first_two(gpt2, "transformer.h.0." + name + ".weight");
    CHECK(second - first == inputs);
  }
  const SafetensorsFile llama(SavedModel(llama_model()).path() / "model.safetensors");
  const auto [first, second] = first_two(llama, "model.layers.0.self_attn.o_proj.weight");
  CHECK(second - first == 1);
}

TEST_CASE("all missing and unexpected tensors and those with a wrong shape are named") {
  const SavedModel saved(llama_model());
  const float value = 1;
  saved.change_tensors([&](std::vector<SafetensorsTensor>& tensors) {
    named(tensors, "model.layers.1.mlp.up_proj.weight").name = "model.layers.1.mlp.upper_proj.weight";
    named(tensors, "model.norm.weight") = {"model.norm.weight", "F32", {1}, &value};
  });
  check_error(
      ExitCode::bad_data,
      {"\"model.layers.1.mlp.up_proj.weight\" is missing", "\"model.layers.1.mlp.upper_proj.weight\" is unexpected",
       "\"model.norm.weight\" has the shape [1], but config.json implies [8]", saved.path().string()},
      [&] { saved.load(); });
}

TEST_CASE("an unsupported dtype is refused") {
  const SavedModel saved(llama_model());
  saved.change_tensors([](auto& tensors) { named(tensors, "model.norm.weight").dtype = "I32"; });
  check_error(ExitCode::bad_data, {"model.norm.weight", "I32"}, [&] { saved.load(); });
}

TEST_CASE("weights that are not finite are refused when they are read") {
  const SavedModel saved(llama_model());
  std::vector<float> norm(8, 1);
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    norm[6] = value;
    saved.change_tensors([&](auto& tensors) { named(tensors, "model.norm.weight").data = norm.data(); });
    check_error(ExitCode::bad_data, {"model.safetensors: \"model.norm.weight\" has values that are NaN or infinite"},
                [&] { saved.load(); });
  }
}

TEST_CASE("a thousand wrong tensors do not print a thousand lines") {
  ModelRecipe model = llama_model();
  model.layers = 100;
  const SavedModel saved(model);
  saved.change_tensors([](auto& tensors) { tensors.clear(); });
  check_error(ExitCode::bad_data, {"and more"}, [&] { saved.load(); });
}

TEST_CASE("a head next to a tied embedding must equal the embedding") {
  const SavedModel saved(gpt2_model());
  std::vector<float> other(88, 1.0F);
  saved.change_tensors([](auto& tensors) {
    tensors.push_back({"lm_head.weight", "F32", {11, 8}, named(tensors, "transformer.wte.weight").data});
  });
  saved.check_same();
  saved.change_tensors([&](auto& tensors) { named(tensors, "lm_head.weight").data = other.data(); });
  check_error(ExitCode::bad_data, {"lm_head.weight", "differs", "tie_word_embeddings to false"}, [&] { saved.load(); });
}

TEST_CASE("a tied model may have its head alone, in place of the embedding") {
  ModelRecipe llama = llama_model();
  llama.tie_embeddings = true;
  const std::vector<std::pair<ModelRecipe, std::string>> cases{{gpt2_model(), "transformer.wte.weight"},
                                                               {llama, "model.embed_tokens.weight"}};
  for (const auto& [model, embedding] : cases) {
    INFO(embedding);
    const SavedModel saved(model);
    saved.change_tensors([&, &name = embedding](auto& tensors) { named(tensors, name).name = "lm_head.weight"; });
    saved.check_same();
    saved.change_tensors([](auto& tensors) { named(tensors, "lm_head.weight").shape = {8, 11}; });
    check_error(ExitCode::bad_data, {"\"lm_head.weight\" has the shape [8,11]"}, [&] { saved.load(); });
    // It is no embedding where config.json does not tie the two.
    saved.change_config([](Json& c) { c["tie_word_embeddings"] = false; });
    ModelRecipe untied = model;
    untied.tie_embeddings = false;
    check_error(ExitCode::bad_data, {'"' + embedding + "\" is missing"},
                [&] { HuggingfaceWeights(saved.path(), Graph::build(untied)); });
  }
}

TEST_CASE("a name that occurs with and without its prefix is refused") {
  const SavedModel saved(gpt2_model());
  saved.change_tensors([](auto& tensors) {
    SafetensorsTensor copy = named(tensors, "transformer.ln_f.weight");
    copy.name = "ln_f.weight";
    tensors.push_back(copy);
  });
  check_error(ExitCode::bad_data, {"ln_f.weight", "twice"}, [&] { saved.load(); });
}

// Splits the weights into two files with an index.
void shard(const SavedModel& saved, const std::function<void(Json&)>& change) {
  const fs::path file = saved.path() / "model.safetensors";
  Json index;
  {
    const SafetensorsFile opened(file);
    std::vector<SafetensorsTensor> halves[2];
    for (std::size_t i = 0; i < opened.entries().size(); ++i) {
      const auto& entry = opened.entries()[i];
      halves[i % 2].push_back({entry.name, entry.dtype, entry.shape, opened.bytes(entry).data()});
      index["weight_map"][entry.name] = i % 2 == 0 ? "a.safetensors" : "b.safetensors";
    }
    write_safetensors(saved.path() / "a.safetensors", halves[0]);
    write_safetensors(saved.path() / "b.safetensors", halves[1]);
  }
  fs::remove(file);
  change(index);
  saved.folder().write("model.safetensors.index.json", index.dump());
}

TEST_CASE("weights in several files are loaded, including links") {
  const SavedModel saved(llama_model());
  shard(saved, [](Json&) {});
  fs::create_directory(saved.path() / "blobs");
  fs::rename(saved.path() / "b.safetensors", saved.path() / "blobs" / "0123");
  fs::create_symlink("blobs/0123", saved.path() / "b.safetensors");
  saved.check_same();
}

TEST_CASE("an index that is wrong or points outside the folder is refused") {
  const std::string norm = "model.norm.weight";
  const std::vector<JsonCase> cases{
      {"a path upwards",
       [&](Json& i) { i["weight_map"][norm] = "../../etc/passwd"; },
       {"../../etc/passwd", "plain name"}},
      {"upwards with the ending", [&](Json& i) { i["weight_map"][norm] = "../a.safetensors"; }, {"plain name"}},
      {"an absolute path", [&](Json& i) { i["weight_map"][norm] = "/tmp/a.safetensors"; }, {"plain name"}},
      {"a number", [&](Json& i) { i["weight_map"][norm] = 1; }, {"plain name"}},
      {"a NUL", [&](Json& i) { i["weight_map"][norm] = std::string("a\0.safetensors", 14); }, {"plain name"}},
      {"another file",
       [&](Json& i) {
         i["weight_map"][norm] = i["weight_map"][norm] == "a.safetensors" ? "b.safetensors" : "a.safetensors";
       },
       {norm, "does not hold it"}},
      {"a tensor too few", [&](Json& i) { i["weight_map"].erase(norm); }, {"does not name", norm}},
      {"a tensor too many", [&](Json& i) { i["weight_map"]["x"] = "a.safetensors"; }, {"\"x\"", "does not hold it"}},
      {"no map", [&](Json& i) { i.erase("weight_map"); }, {"weight_map"}},
      {"a list", [&](Json& i) { i = Json::array(); }, {"weight_map"}},
  };
  for (const JsonCase& changed : cases) {
    INFO(changed.what);
    const SavedModel saved(llama_model());
    shard(saved, changed.change);
    Strings parts = changed.parts;
    parts.emplace_back("model.safetensors.index.json");
    check_error(ExitCode::bad_data, parts, [&] { saved.load(); });
  }
}

TEST_CASE("files that do not exist are missing input") {
  const test::TemporaryDirectory empty;
  check_error(ExitCode::missing_input, {"config.json"}, [&] { model_recipe_from_huggingface(empty.path()); });
  const SavedModel saved(llama_model());
  fs::remove(saved.path() / "model.safetensors");
  check_error(ExitCode::missing_input, {"model.safetensors.index.json"}, [&] { saved.load(); });
  saved.folder().write("pytorch_model.bin", "x");
  check_error(ExitCode::missing_input, {"safe_serialization=True"}, [&] { saved.load(); });
  const SavedModel sharded(llama_model());
  shard(sharded, [](Json&) {});
  fs::remove(sharded.path() / "b.safetensors");
  check_error(ExitCode::missing_input, {"b.safetensors"}, [&] { sharded.load(); });
}

}  // namespace
}  // namespace llmtrain
