// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>

#include <limits>

#include "core/base/file.h"
#include "core/huggingface/huggingface.h"
#include "tests/core/checkpoint/huggingface_fixture.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using test::check_error;
using test::counted_weights;
using test::gpt2_model;
using test::Json;
using test::llama_model;
using test::SavedModel;
using test::Strings;

struct ExportCase {
  std::string what;
  ModelRecipe model;
  Strings parts;
};

ModelRecipe changed(ModelRecipe model, const std::function<void(ModelRecipe&)>& change) {
  change(model);
  return model;
}

ModelRecipe with_experts(ModelRecipe model, const std::function<void(MixtureOfExpertsRecipe&)>& change) {
  model.moe = MixtureOfExpertsRecipe{.experts = 3, .top_k = 2, .ffn_hidden_size = 5, .normalize_gates = true};
  change(*model.moe);
  return model;
}

// Dense models that no architecture of transformers can express.
std::vector<ExportCase> dense_cases() {
  using M = ModelRecipe&;
  return {
      {"gpt-rope",
       changed(gpt2_model(), [](M m) { m.position = Position::rope; }),
       {"/model/norm", "/model/activation"}},
      {"learned, rmsnorm",
       changed(gpt2_model(), [](M m) { m.norm = NormKind::rmsnorm; }),
       {"/model/norm: is \"rmsnorm\""}},
      {"learned, swiglu", changed(gpt2_model(), [](M m) { m.activation = Activation::swiglu; }), {"/model/activation"}},
      {"learned, no biases",
       changed(gpt2_model(), [](M m) { m.set_biases(false); }),
       {"/model/bias", "/model/qkv_bias", "/model/attention_output_bias"}},
      {"learned, head norms", changed(gpt2_model(), [](M m) { m.qk_norm = true; }), {"/model/qk_norm"}},
      {"learned, grouped heads", changed(gpt2_model(), [](M m) { m.kv_heads = 1; }), {"/model/kv_heads: is 1"}},
      {"learned, wide heads", changed(gpt2_model(), [](M m) { m.head_dim = 8; }), {"/model/head_dim: is 8"}},
      {"rope, layernorm", changed(llama_model(), [](M m) { m.norm = NormKind::layernorm; }), {"/model/norm"}},
      {"rope, gelu", changed(llama_model(), [](M m) { m.activation = Activation::gelu; }), {"/model/activation"}},
      {"a bias behind attention alone",
       changed(llama_model(), [](M m) { m.attention_output_bias = true; }),
       {"/model/attention_output_bias: is true"}},
      {"biases of queries and the network",
       changed(llama_model(), [](M m) { m.qkv_bias = m.bias = true; }),
       {"/model/attention_output_bias: is false"}},
      {"head norms, biases",
       changed(llama_model(),
               [](M m) {
                 m.qk_norm = true;
                 m.bias = m.qkv_bias = true;
               }),
       {"/model/bias", "/model/attention_output_bias", "Qwen3"}},
      {"biases, uneven heads",
       changed(llama_model(),
               [](M m) {
                 m.set_biases(true);
                 m.heads = m.kv_heads = 3;
               }),
       {"/model/heads"}},
  };
}

// The same of experts.
std::vector<ExportCase> mixture_cases() {
  using M = ModelRecipe&;
  using E = MixtureOfExpertsRecipe&;
  return {
      {"Mixtral, gates as they are",
       with_experts(llama_model(), [](E e) { e.normalize_gates = false; }),
       {"/model/moe/normalize_gates: is false", "Mixtral"}},
      {"Mixtral, every second layer",
       with_experts(llama_model(), [](E e) { e.every = 2; }),
       {"/model/moe/every: is 2"}},
      {"experts, cosine router",
       with_experts(llama_model(), [](E e) { e.router = Router::cosine; }),
       {"/model/moe/router: is \"cosine\""}},
      {"shared experts without a gate",
       with_experts(llama_model(), [](E e) { e.shared_experts = 1; }),
       {"/model/moe/shared_gate: is false", "Qwen2-MoE"}},
      {"head norms, shared experts",
       with_experts(changed(llama_model(), [](M m) { m.qk_norm = true; }),
                    [](E e) {
                      e.shared_experts = 1;
                      e.shared_gate = true;
                    }),
       {"/model/moe/shared_experts: is 1", "Qwen3-MoE"}},
      {"learned, experts", with_experts(gpt2_model(), [](E) {}), {"/model/moe"}},
      {"Mixtral, biases",
       with_experts(changed(llama_model(), [](M m) { m.qkv_bias = m.attention_output_bias = true; }), [](E) {}),
       {"/model/qkv_bias", "/model/attention_output_bias", "Mixtral"}},
      {"shared experts, a bias behind attention",
       with_experts(changed(llama_model(), [](M m) { m.attention_output_bias = true; }),
                    [](E e) { e.shared_experts = 1, e.shared_gate = true; }),
       {"/model/attention_output_bias", "Qwen2-MoE"}},
  };
}

TEST_CASE("a model that no transformers architecture can express is refused by its keys") {
  std::vector<ExportCase> cases = dense_cases();
  std::ranges::move(mixture_cases(), std::back_inserter(cases));
  for (const ExportCase& refused : cases) {
    INFO(refused.what);
    const test::TemporaryDirectory folder;
    const Graph graph = Graph::build(refused.model);
    check_error(ExitCode::bad_recipe, refused.parts,
                [&] { save_huggingface(folder.path() / "out", graph, NamedWeightSource(counted_weights(graph))); });
    CHECK(fs::is_empty(folder.path()));
  }
}

TEST_CASE("end-of-text tokens are written only if the vocabulary identifies them") {
  const auto end_of_text = [](std::int64_t vocabulary) {
    ModelRecipe model = gpt2_model();
    model.vocab_size = vocabulary;
    const SavedModel saved(model);
    const Json generation = Json::parse(read_file(saved.path() / "generation_config.json"));
    const Json config = Json::parse(read_file(saved.path() / "config.json"));
    CHECK(config["eos_token_id"] == config["bos_token_id"]);
    CHECK(generation.value("eos_token_id", Json()) == config["eos_token_id"]);
    return config["eos_token_id"];
  };
  CHECK(end_of_text(11).is_null());
  CHECK(end_of_text(50257) == 50256);
  CHECK(end_of_text(50304) == 50256);
  CHECK(end_of_text(50305).is_null());
}

TEST_CASE("a folder that cannot be created is an error that names it") {
  const test::TemporaryDirectory folder;
  const auto file = folder.write("file", "x");
  const Graph graph = Graph::build(gpt2_model());
  check_error(ExitCode::cannot_write, {file.string()},
              [&] { save_huggingface(file / "out", graph, NamedWeightSource(counted_weights(graph))); });
}

TEST_CASE("values beyond the type of an export are refused, and nothing stays") {
  const Graph graph = Graph::build(llama_model());
  NamedWeights weights = counted_weights(graph);
  const test::TemporaryDirectory folder;
  const auto save = [&](at::ScalarType type) {
    save_huggingface(folder.path() / "out", graph, NamedWeightSource(weights), {type});
  };
  weights.at("layers.1.ffn.up.weight").view({-1})[5].fill_(-70000.5);
  check_error(ExitCode::bad_data,
              {"model.layers.1.mlp.up_proj.weight: has values of up to 70000.5", "65504", "--dtype bf16 or fp32"},
              [&] { save(at::kHalf); });
  CHECK(fs::is_empty(folder.path()));
  weights.at("layers.1.ffn.up.weight").view({-1})[5].fill_(std::numeric_limits<float>::infinity());
  check_error(ExitCode::bad_data, {"model.layers.1.mlp.up_proj.weight has values that are NaN or infinite"},
              [&] { save(at::kFloat); });
  CHECK(fs::is_empty(folder.path()));
  weights.at("layers.1.ffn.up.weight").view({-1})[5].fill_(65519);
  CHECK_NOTHROW(save(at::kHalf));
}

TEST_CASE("an export says how much of a model it has read, of all formats and with experts") {
  for (const ModelRecipe& model :
       {gpt2_model(), llama_model(), with_experts(llama_model(), [](MixtureOfExpertsRecipe&) {})}) {
    const Graph graph = Graph::build(model);
    const NamedWeightSource weights(counted_weights(graph));
    std::vector<double> shares;
    const WatchedWeights watched(weights, graph, [&](double share) { shares.push_back(share); });
    const test::TemporaryDirectory folder, plain;
    save_huggingface(folder.path() / "model", graph, watched, {});
    CHECK(std::is_sorted(shares.begin(), shares.end()));
    CHECK(shares.front() < 0.5);
    CHECK(shares.back() == 1);
    save_huggingface(plain.path() / "model", graph, weights, {});
    CHECK(read_file(folder.path() / "model" / "model.safetensors") ==
          read_file(plain.path() / "model" / "model.safetensors"));
  }
}

TEST_CASE("tokens that end a text are added to those that the model's origin lists") {
  const test::TemporaryDirectory folder;
  const Graph graph = Graph::build(llama_model());
  const NamedWeightSource weights(counted_weights(graph));
  int exports = 0;
  const auto ends = [&](const std::string& file, const fs::path& origin, const std::vector<std::int64_t>& given) {
    const fs::path out = folder.path() / std::to_string(exports++);
    save_huggingface(out, graph, weights, {.origin = origin, .ends = given});
    return Json::parse(read_file(out / file)).value("eos_token_id", Json()).dump();
  };
  CHECK(ends("generation_config.json", {}, {}) == "null");
  CHECK(ends("generation_config.json", {}, {7}) == "7");
  CHECK(ends("config.json", {}, {7, 9}) == "[7,9]");
  folder.write("origin/config.json", R"({"eos_token_id": 3})");
  CHECK(ends("generation_config.json", folder.path() / "origin", {3, 9}) == "[3,9]");
  CHECK(ends("config.json", folder.path() / "origin", {9}) == "3");
  // Its file stays as it is unless it lacks one.
  const std::string kept = "{\"eos_token_id\":   [3, 4], \"top_k\": 5}";
  folder.write("origin/generation_config.json", kept);
  CHECK(ends("generation_config.json", folder.path() / "origin", {4}) == "[3,4]");
  CHECK(read_file(folder.path() / std::to_string(exports - 1) / "generation_config.json") == kept);
  CHECK(ends("generation_config.json", folder.path() / "origin", {4, 9}) == "[3,4,9]");
  CHECK(Json::parse(read_file(folder.path() / std::to_string(exports - 1) / "generation_config.json"))["top_k"] == 5);
}

}  // namespace
}  // namespace llmtrain
