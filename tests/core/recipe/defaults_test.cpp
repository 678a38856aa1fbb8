// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/recipe/good_recipe.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

using test::Json;
using test::parse;
using test::small_recipe;

// Compared whatever the order of their keys.
using Keys = nlohmann::json;

// A preset of docs/recipe.md: what all have, and what is this one's, deliberately repeated here.
Keys preset(const std::string& own) {
  Keys all = Keys::parse(R"({
    "resnet": null, "layers": 4, "decoder_layers": 0, "hidden_size": 64, "heads": 8, "latent_attention": null, "kv_heads": 8,
    "head_dim": 8, "ffn_hidden_size": 256, "image": null, "vocab_size": 512, "max_sequence_length": 128, "norm": "layernorm",
    "norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": null, "sliding_window": null, "attention_scale": null,
    "attention_sinks": false, "attention_gate": false, "rotary_dim": "auto", "parallel_residual": "none",
    "post_norms": false, "embedding_scale": 1.0, "linear_attention": null, "layer_kinds": [], "bias": true,
    "qkv_bias": true, "attention_output_bias": true, "qk_norm": false, "tie_embeddings": true, "dropout": 0.0, "init_std": 0.02, "moe": null,
    "multi_token_prediction": null, "classifier": null, "lora": null})");
  all.update(Keys::parse(own));
  return all;
}

TEST_CASE("Each architecture has its presets", "[recipe]") {
  const std::vector<std::string> presets = {
      R"({"architecture": "gpt2", "activation": "gelu_tanh", "position": "learned"})",
      R"({"architecture": "gpt-rope", "activation": "gelu_tanh", "position": "rope", "tie_embeddings": false})",
      R"({"architecture": "llama", "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false,
          "qkv_bias": false, "attention_output_bias": false, "tie_embeddings": false})",
      R"({"architecture": "bert", "activation": "gelu", "norm_eps": 1e-12, "position": "learned"})",
      R"({"architecture": "roberta", "activation": "gelu", "position": "learned"})",
      R"({"architecture": "bart", "decoder_layers": 4, "activation": "gelu", "position": "learned"})",
      R"({"architecture": "t5", "decoder_layers": 4, "activation": "relu", "norm": "rmsnorm", "norm_eps": 1e-6,
          "position": "relative", "bias": false, "qkv_bias": false, "attention_output_bias": false, "init_std": 1.0})",
  };
  for (const std::string& own : presets) {
    const Keys expected = preset(own);
    auto json = small_recipe();
    json["model"]["architecture"] = expected["architecture"].get<std::string>();
    CHECK(Keys(to_json(parse(json))["model"]) == expected);
  }
  CHECK(parse(small_recipe()).model.architecture == Architecture::gpt2);
}

TEST_CASE("The classes of labels are those of an encoder's head, unless it says others", "[recipe]") {
  auto json = small_recipe();
  json["model"]["architecture"] = "bert";
  json["data"]["labels"] = {{"classes", {"sad", "glad"}}};
  const auto classifier = [&] { return parse(json).model.classifier.value(); };
  CHECK(classifier() == ClassifierRecipe{ClassifiedPart::sequence, {"sad", "glad"}});
  json["data"]["labels"]["of"] = "words";
  CHECK(classifier() == ClassifierRecipe{ClassifiedPart::token, {"sad", "glad"}});
  json["data"].erase("labels");
  json["data"]["spans"] = {{"question_length", 8}, {"overlap", 8}};
  CHECK(classifier() == ClassifierRecipe{ClassifiedPart::span, {"start", "end"}});
  json["data"].erase("spans");
  CHECK_FALSE(parse(json).model.classifier);
  json["model"]["classifier"] = {{"classes", {"a", "b"}}};
  CHECK(classifier() == ClassifierRecipe{ClassifiedPart::sequence, {"a", "b"}});
}

TEST_CASE("What follows from a model's images may be left out, and their classes are its own", "[recipe]") {
  auto json = small_recipe();
  json["model"].erase("vocab_size");
  json["model"].erase("max_sequence_length");
  json["model"]["architecture"] = "vit";
  json["model"]["image"] = {{"size", 32}, {"patch", 4}};
  json["data"]["images"] = {{"classes", {"cat", "dog"}}};
  const Recipe recipe = parse(json);
  CHECK(recipe.model.image == ImageInputRecipe{32, 4, 3});
  CHECK(recipe.model.vocab_size == 1);
  CHECK(recipe.model.max_sequence_length == 65);
  CHECK(recipe.batch.sequence_length == 65);
  CHECK(recipe.model.classifier == ClassifierRecipe{ClassifiedPart::sequence, {"cat", "dog"}});
  CHECK_FALSE(recipe.model.tie_embeddings);
  CHECK(recipe.model.norm_eps == 1e-12);
  CHECK(recipe.model.activation == Activation::gelu);
  CHECK(shorter_side(*recipe.data.images, 224) == 256);
  CHECK_FALSE(recipe.data.images->augmentation);
  // What is written out reads back as the same.
  CHECK(to_json(parse(to_json(recipe))) == to_json(recipe));
}

TEST_CASE("What a residual network's stages and images say may be left out", "[recipe]") {
  auto json = small_recipe();
  json["model"] = {{"architecture", "resnet"},
                   {"image", {{"size", 48}}},
                   {"resnet", {{"stages", {{{"blocks", 2}, {"channels", 64}}, {{"blocks", 3}, {"channels", 96}}}}}}};
  json["data"]["images"] = {{"classes", {"cat", "dog"}}};
  const Recipe recipe = parse(json);
  const ModelRecipe& model = recipe.model;
  CHECK(model.image == ImageInputRecipe{48, 48, 3});
  CHECK(model.resnet == ResnetRecipe{ResidualBlock::basic, 64, 32, {{2, 64}, {3, 96}}});
  CHECK(model.layers == 5);
  CHECK(model.hidden_size == 96);
  CHECK(model.heads == 1);
  CHECK(model.kv_heads == 1);
  CHECK(model.head_dim == 96);
  CHECK(model.ffn_hidden_size == 96);
  CHECK(model.vocab_size == 1);
  CHECK(model.max_sequence_length == 1);
  CHECK(recipe.batch.sequence_length == 1);
  CHECK(model.classifier == ClassifierRecipe{ClassifiedPart::sequence, {"cat", "dog"}});
  CHECK(model.activation == Activation::relu);
  CHECK(model.norm == NormKind::groupnorm);
  CHECK(model.norm_eps == 1e-5);
  CHECK(model.position == Position::none);
  CHECK(model.init_std == 1);
  CHECK_FALSE(model.tie_embeddings);
  CHECK(to_json(parse(to_json(recipe))) == to_json(recipe));
}

TEST_CASE("The llama feed-forward width is 8h/3, rounded up to a multiple of 256", "[recipe]") {
  const std::vector<std::pair<int, int>> published = {{4096, 11008}, {5120, 13824}, {6656, 17920}, {8192, 22016}};
  for (const auto& [hidden_size, expected] : published) {
    auto json = small_recipe();
    json["model"]["architecture"] = "llama";
    json["model"]["hidden_size"] = hidden_size;
    CHECK(parse(json).model.ffn_hidden_size == expected);
  }
}

TEST_CASE("Every key except the required ones has its documented default", "[recipe]") {
  const auto json = to_json(parse(small_recipe()));
  auto expected = Json::parse(R"({
    "name": "run", "description": "", "seed": 1234,
    "data": {"tokenizer": "bytes", "fine_tuning": null, "document_mask": null, "masking": null, "denoising": null, "labels": null, "pairs": null, "spans": null, "images": null, "curriculum": {"sequence_length": null, "vocabulary_rarity": null}, "train": [], "validation": [], "shuffle": true, "on_bad_line": "stop"},
    "batch": {"global": 8, "micro": 2, "sequence_length": 128, "growth": null},
    "training": {"steps": 100, "epochs": null, "init_from": null, "adapters_from": null, "evaluate_every": 0, "evaluate_batches": 0, "judged_by": null, "early_stopping": null, "generation": null, "label_smoothing": 0.0, "clip_norm": 1.0,
      "spikes": {"loss": 0.0, "gradient_norm": 0.0, "window": 128}, "update_in_backward": false, "skip_limit": 10, "rollbacks": 0, "freeze": [],
      "token_dropping": null,
      "optimizer": {"name": "adamw", "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1,
        "muon": {"momentum": 0.95, "nesterov": true, "steps": 5, "scale": "match_rms_adamw"}},
      "learning_rate": {"schedule": "cosine", "clock": "steps", "peak": 3e-4, "minimum": 0.0, "warmup_steps": 0, "decay_steps": 100,
        "decay_length": "auto", "decay_shape": "linear", "cycles": 1}},
    "precision": {"compute": "fp32", "gradients": "fp32", "tf32": false, "stochastic_rounding": false, "fp8_level": "off",
      "fp8_products": "all", "product_format": "fp8",
      "fp8_scaling": {"method": "current", "history_steps": 1024, "margin": 0}, "gradient_scaling": "auto",
      "loss_scale": {"initial": 65536, "growth_steps": 2000},
      "high_precision": {"first_layers": 0, "last_layers": 0, "parameters": [], "fallback_steps": 0}},
    "parallel": {"tensor": 1, "sequence": false, "pipeline": 1, "context": 1, "expert": 1, "expert_tensor": 1,
      "expert_slices": "auto", "expert_overlap": 1, "expert_all_to_all": "linear", "data": "auto", "zero_stage": 0, "zero_shard_ranks": "auto", "overlap": true},
    "pipeline": {"schedule": "interleaved", "balance": "layers", "loops": 1},
    "memory": {"recompute": "none", "limit": null, "arena": false, "chunks": 1, "policy": "none", "offload": {"optimizer": false, "gradients": false, "weights": false, "activations": false,
      "resident_stages": 0, "folder": null}},
    "kernels": {"attention": "auto", "cuda_graphs": false},
    "cluster": {"profile": "auto", "program": "llmtrain", "nodes": 1, "devices_per_node": "auto", "device": "auto",
      "price_per_device_hour": null, "currency": ""},
    "launch": {"ranks": "auto", "backend": "auto", "link_delay_microseconds": 0.0,
      "link_megabytes_per_second": 0.0, "link_message_microseconds": 0.0, "node_link_speedup": 1.0,
      "layer_delay_microseconds": 0.0, "watchdog_seconds": 600.0,
      "time_limit_seconds": 0.0, "check_replicas_every": 0, "network_interfaces": [],
      "slurm": {"launcher": "srun", "partition": "", "account": "", "qos": "", "cpus_per_task": 0, "memory": "",
        "exclusive": false, "gpus": "gpus-per-node", "gpu_type": "", "log": "", "sbatch": [],
        "srun": [], "cpu_bind": "", "requeue_limit": "auto", "scratch": "", "modules": [], "setup": [],
        "container": {"image": "", "runtime": "pyxis", "mounts": [], "program": ""}}},
    "checkpoint": {"every": 0, "keep": 3, "keep_every": 0, "keep_best": 0, "save_base": false, "async": true, "on_failure": "stop", "resume": "auto"},
    "log": {"directory": "runs/run", "every": 1, "tensorboard": true, "routing": false, "fp8_statistics": false}})");
  expected["model"] = json["model"];
  CHECK(nlohmann::json(json) == nlohmann::json(expected));
}

TEST_CASE("Defaults follow the keys that they depend on", "[recipe]") {
  auto json = small_recipe();
  json["name"] = "other";
  json["training"]["steps"] = 77;
  json["parallel"]["tensor"] = 4;
  json["model"]["moe"] = {{"experts", 8}};
  json["model"]["ffn_hidden_size"] = 48;
  const auto recipe = parse(json);
  CHECK(recipe.log.directory == "runs/other");
  CHECK(recipe.training.learning_rate.decay_steps == 77);
  CHECK(recipe.parallel.sequence);
  CHECK(recipe.parallel.expert_tensor == 4);
  CHECK(recipe.model.moe->ffn_hidden_size == 48);
  CHECK(recipe.model.moe->top_k == 1);
  CHECK(recipe.model.moe->gate_noise == 0);
  CHECK(parse(json, {"model.moe.balance_loss=\"load_importance\""}).model.moe->gate_noise == 1);
  CHECK_FALSE(recipe.model.moe->normalize_gates);
  CHECK(parse(json, {"model.moe.top_k=2"}).model.moe->normalize_gates);
}

TEST_CASE("ZeRO-3 without a pipeline gathers layer by layer, one micro-batch at a time", "[recipe]") {
  struct PipelineDefault {
    std::vector<Override> overrides;
    PipelineSchedule schedule;
    std::int64_t loops;
  };
  const std::int64_t layers = small_recipe()["model"]["layers"];
  const auto depth_first = PipelineSchedule::interleaved, breadth_first = PipelineSchedule::breadth_first;
  const std::string zero = "parallel.zero_stage=3";
  const std::vector<PipelineDefault> cases{
      {{zero}, depth_first, layers},
      {{zero, "pipeline.balance=\"blocks\""}, depth_first, layers + 2},
      {{zero, "pipeline.balance=[" + std::to_string(layers - 1) + ",1]"}, depth_first, 2},
      {{"parallel.zero_stage=2"}, depth_first, 1},
      {{zero, "precision.fp8_level=\"O1\""}, breadth_first, layers},
      // What is written stays.
      {{zero, "pipeline.loops=1", "pipeline.schedule=\"breadth_first\""}, breadth_first, 1},
  };
  for (const PipelineDefault& each : cases) {
    CAPTURE(each.overrides.back());
    const auto pipeline = parse(small_recipe(), each.overrides).pipeline;
    CHECK(pipeline.schedule == each.schedule);
    CHECK(pipeline.loops == each.loops);
  }
}

TEST_CASE("ZeRO-3 with a pipeline has the order that bounds activations and gathers layer by layer, where it is legal",
          "[recipe]") {
  struct OrderDefault {
    std::vector<Override> overrides;
    PipelineSchedule schedule;
    std::int64_t loops;
  };
  const auto one_by_one = PipelineSchedule::one_forward_one_backward, interleaved = PipelineSchedule::interleaved,
             breadth_first = PipelineSchedule::breadth_first;
  // Four micro-batches on one data rank.
  const std::vector<Override> common{"parallel.zero_stage=3", "parallel.pipeline=2"};
  const std::vector<OrderDefault> cases{
      {{"parallel.data=2"}, interleaved, 2},
      {{"launch.ranks=4"}, interleaved, 2},
      {{"cluster.nodes=2", "cluster.devices_per_node=2"}, interleaved, 2},
      {{"parallel.data=2", "pipeline.balance=\"blocks\""}, interleaved, 3},
      {{"parallel.data=2", "pipeline.balance=[0,1,1,2]"}, interleaved, 2},
      {{"parallel.data=2", "model.layers=5"}, interleaved, 2},
      // One micro-batch, or three, on two ranks; the number of ranks is the machine's; a layer per rank.
      {{"parallel.data=4"}, one_by_one, 1},
      {{"parallel.data=2", "batch.global=12"}, one_by_one, 1},
      {{"parallel.tensor=2"}, one_by_one, 1},
      {{"parallel.data=2", "pipeline.balance=[3,1]"}, one_by_one, 1},
      {{"parallel.data=2", "parallel.pipeline=4"}, one_by_one, 1},
      // FP8 gradients are reduced once a step.
      {{"parallel.data=4", "precision.fp8_level=\"O1\""}, breadth_first, 2},
      // Other sharding, and where either key is written.
      {{"parallel.data=2", "parallel.zero_stage=2"}, breadth_first, 1},
      {{"parallel.data=2", "pipeline.loops=1"}, breadth_first, 1},
      {{"parallel.data=2", "pipeline.loops=2"}, breadth_first, 2},
      {{"parallel.data=2", "pipeline.schedule=\"interleaved\""}, interleaved, 1},
  };
  for (const OrderDefault& each : cases) {
    std::vector<Override> overrides = common;
    overrides.insert(overrides.end(), each.overrides.begin(), each.overrides.end());
    CAPTURE(each.overrides);
    const Recipe recipe = parse(small_recipe(), overrides);
    CHECK(recipe.pipeline.schedule == each.schedule);
    CHECK(recipe.pipeline.loops == each.loops);
    // A run's recipe.json states both, so that a resumed run keeps them.
    CHECK(parse(to_json(recipe).dump()) == recipe);
  }
  Recipe open = parse(small_recipe(), {"parallel.zero_stage=3", "parallel.pipeline=2", "parallel.data=2"});
  open.pipeline.schedule = breadth_first;
  open.pipeline.loops = 1;
  CHECK(with_dependent_defaults(open).pipeline.schedule == interleaved);
  CHECK(with_dependent_defaults(open).pipeline.loops == 2);
}

TEST_CASE("A policy of memory sets what it consists of, and the recipe leaves out", "[recipe]") {
  using enum PipelineSchedule;
  const auto with = [](const std::string& policy, std::vector<Override> more) {
    more.insert(more.begin(), {"memory.policy=\"" + policy + "\""});
    const Recipe recipe = parse(small_recipe(), more);
    // A run's recipe.json states all of it.
    CHECK(parse(to_json(recipe).dump()) == recipe);
    return recipe;
  };
  const std::int64_t layers = parse(small_recipe()).model.layers;
  const Recipe offload = with("zero_offload", {});
  CHECK(offload.memory.offload == OffloadRecipe{.optimizer = StatesPlace::host, .gradients = true});
  CHECK(offload.pipeline.loops == layers);
  CHECK(offload.parallel.zero_stage == 0);
  // All gradients of a rank are final at once, and the host fetches them in its step.
  CHECK_FALSE(with("zero_offload", {"parallel.pipeline=2", "pipeline.loops=1"}).memory.offload.gradients);

  const OffloadRecipe all{.optimizer = StatesPlace::host, .gradients = true, .weights = true, .activations = true};
  const Recipe infinity = with("zero_infinity", {});
  CHECK(infinity.memory.offload == all);
  CHECK(infinity.parallel.zero_stage == 3);
  CHECK(infinity.pipeline.schedule == interleaved);

  OffloadRecipe updated = all;
  updated.gradients = false;
  const Recipe harmony = with("harmony", {"training.clip_norm=0"});
  CHECK(harmony.memory.offload == updated);
  CHECK(harmony.training.update_in_backward);
  CHECK(harmony.training.skip_limit == 1);
  CHECK(harmony.pipeline.schedule == breadth_first);
  CHECK(harmony.pipeline.loops == layers);
  // Updates that wait for the norm of all gradients.
  CHECK(with("harmony", {"training.clip_norm=1"}).memory.offload == all);
  CHECK_FALSE(with("harmony", {"training.clip_norm=1"}).training.update_in_backward);
  CHECK(with("harmony", {"training.clip_norm=0", "precision.fp8_level=\"O1\""}).memory.offload == all);
  CHECK(with("harmony", {"training.clip_norm=0", "precision.fp8_level=\"O0\""}).memory.offload == updated);
  CHECK(with("harmony", {"memory.offload.optimizer=\"disk\""}).memory.offload.optimizer == StatesPlace::disk);
  CHECK(with("harmony", {"parallel.pipeline=2", "parallel.data=1"}).pipeline.loops == layers / 2);

  OffloadRecipe states = all;
  states.activations = false;
  CHECK(with("patrickstar", {}).memory.offload == states);
  CHECK(with("patrickstar", {}).parallel.zero_stage == 3);
  CHECK(with("patrickstar", {"memory.offload.resident_stages=1"}).memory.offload.resident_stages == 1);
  CHECK(with("naive_swapping", {}).memory.offload == all);
  CHECK_FALSE(with("naive_swapping", {}).parallel.overlap);
  CHECK(with("patrickstar", {}).parallel.overlap);
}

TEST_CASE("A key of a preset can be overridden without changing the others", "[recipe]") {
  auto json = small_recipe();
  json["model"]["architecture"] = "llama";
  json["model"]["norm"] = "layernorm";
  const auto model = parse(json).model;
  CHECK(model.norm == NormKind::layernorm);
  CHECK(model.activation == Activation::swiglu);
}

TEST_CASE("A resolved recipe is unchanged by writing and reading it", "[recipe]") {
  for (const auto& json : {small_recipe(), test::large_recipe()}) {
    const auto recipe = parse(json);
    const auto text = to_json(recipe).dump();
    CHECK(parse(text) == recipe);
    CHECK(to_json(parse(text)).dump() == text);
  }
}

TEST_CASE("A recipe that sets every key is written unchanged", "[recipe]") {
  auto expected = test::large_recipe();
  expected["data"]["validation"][0]["weight"] = 1.0;
  for (const char* list : {"train", "validation"})
    for (auto& source : expected["data"][list]) source["text_key"] = "text";
  CHECK(nlohmann::json(to_json(parse(test::large_recipe()))) == nlohmann::json(expected));
}

TEST_CASE("Paths resolve against the recipe's folder", "[recipe]") {
  const test::TemporaryDirectory directory;
  auto json = small_recipe();
  json["data"] = Json::parse(R"({"tokenizer": {"huggingface": "./tokenizer.json"},
    "train": [{"path": "../text/*.txt"}, {"path": "a/../b.txt"}, {"path": "/absolute.txt"}]})");
  json["training"]["init_from"] = "hf:models/gpt2";
  json["checkpoint"]["resume"] = "old/run";
  json["cluster"]["profile"] = "my.json";
  json["cluster"]["program"] = "my/program";
  json["log"]["directory"] = "here";
  const auto recipe = read_recipe(directory.write("recipes/a.json", json.dump()));
  const auto root = std::filesystem::canonical(directory.path()).string();
  CHECK(recipe.data.tokenizer.file == root + "/recipes/tokenizer.json");
  CHECK(recipe.data.train[0].path == root + "/text/*.txt");
  CHECK(recipe.data.train[1].path == root + "/recipes/a/../b.txt");
  CHECK(recipe.data.train[2].path == "/absolute.txt");
  CHECK(recipe.training.init_from == "hf:" + root + "/recipes/models/gpt2");
  CHECK(recipe.checkpoint.resume == root + "/recipes/old/run");
  CHECK(recipe.cluster.profile == root + "/recipes/my.json");
  CHECK(recipe.cluster.program == root + "/recipes/my/program");
  CHECK(recipe.log.directory == "here");
}

TEST_CASE("Keywords in place of paths stay keywords", "[recipe]") {
  auto json = small_recipe();
  json["checkpoint"]["resume"] = "never";
  json["cluster"]["profile"] = "h200";
  const auto recipe = parse(json);
  CHECK(recipe.checkpoint.resume == "never");
  CHECK(recipe.cluster.profile == "h200");
}

TEST_CASE("A missing recipe file and one that is not a file are distinguished", "[recipe]") {
  const test::TemporaryDirectory directory;
  const auto code_of = [](const std::filesystem::path& file) {
    try {
      read_recipe(file);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::done;
  };
  CHECK(code_of(directory.path() / "none.json") == ExitCode::missing_input);
  CHECK(code_of(directory.path()) == ExitCode::bad_recipe);
  CHECK(code_of(directory.write("large.json", std::string(2 << 20, ' '))) == ExitCode::bad_recipe);
  CHECK(code_of(directory.write("good.json", small_recipe().dump())) == ExitCode::done);
}

}  // namespace
}  // namespace llmtrain
