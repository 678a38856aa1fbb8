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

// A merge patch (RFC 7396) of the small recipe: 4 layers, hidden 64, 8 heads, vocabulary 512, length 128, batch 8 of 2,
// 100 steps.
struct Patch {
  std::string patch;
  std::string pointer;  // of the one error; empty when the recipe stays good
  std::vector<std::string> words;
};

std::vector<std::string> complaints_of(const std::string& patch) {
  auto json = small_recipe();
  json.merge_patch(Json::parse(patch));
  return complaints(json.dump());
}

void check(const std::vector<Patch>& patches) {
  for (const auto& [patch, pointer, words] : patches) {
    const auto lines = complaints_of(patch);
    CAPTURE(patch, lines);
    if (pointer.empty()) {
      CHECK(lines.empty());
      continue;
    }
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::StartsWith("r.json: " + pointer + ": "));
    for (const auto& part : words) CHECK_THAT(lines[0], Catch::Contains(part));
  }
}

TEST_CASE("Shapes of the model must fit each other", "[recipe]") {
  check({
      {R"({"model": {"kv_heads": 3}})", "/model/kv_heads", {"3 does not divide 8", "model.heads", "did you mean 2?"}},
      {R"({"model": {"kv_heads": 16}})", "/model/kv_heads", {"did you mean 8?"}},
      {R"({"model": {"heads": 6}})", "/model/hidden_size", {"64 is not a multiple of 6", "head_dim", "mean 66?"}},
      {R"({"model": {"heads": 6, "head_dim": 10}})", "", {}},
      {R"({"model": {"heads": 128}})", "/model/hidden_size", {"did you mean 128?"}},
      {R"({"model": {"architecture": "llama", "head_dim": 5}})", "/model/head_dim", {"5", "multiple of 2", "mean 6?"}},
      {R"({"model": {"head_dim": 5}})", "", {}},
      {R"({"model": {"architecture": "gpt-rope", "heads": 64}})", "/model/head_dim", {"1 is not", "position is rope"}},
      {R"({"batch": {"sequence_length": 129}})", "/batch/sequence_length", {"129", "(128)", "did you mean 128?"}},
      {R"({"model": {"position": "rope"}, "batch": {"sequence_length": 129}})", "/batch/sequence_length", {"too long"}},
      {R"({"model": {"vocab_size": 255}, "data": {"train": [{"path": "a.txt"}]}})",
       "/model/vocab_size",
       {"255 is too small", "bytes", "did you mean 256?"}},
      {R"({"model": {"vocab_size": 255}, "data": {"train": [{"path": "a.bin"}]}})", "", {}},
      {R"({"model": {"vocab_size": 255}, "data": {"tokenizer": {"huggingface": "t.json"},
         "train": [{"path": "a.txt"}]}})",
       "",
       {}},
      {R"({"model": {"moe": {"experts": 2, "top_k": 3}}})", "/model/moe/top_k", {"at most model.moe.experts (2)"}},
      {R"({"model": {"moe": {"experts": 2, "every": 5}}})", "/model/moe/every", {"no layer with experts"}},
      {R"({"model": {"dropout": 0.1}, "kernels": {"attention": "flash"}})",
       "/kernels/attention",
       {"flash", "dropout 0.1", "math path", "did you mean \"auto\"?"}},
      {R"({"model": {"dropout": 0.1}})", "", {}},
      {R"({"kernels": {"attention": "flash"}})", "", {}},
      {R"({"precision": {"fp8_level": "O1"}})", "/precision/compute", {"fp32", "\"bf16\" or \"fp16\""}},
      {R"({"precision": {"fp8_level": "O1", "compute": "fp16"}})", "", {}},
  });
}

TEST_CASE("Batch and schedule of the learning rate must fit each other", "[recipe]") {
  check({
      {R"({"batch": {"global": 7}})", "/batch/global", {"7 is not a multiple of 2", "batch.micro", "did you mean 8?"}},
      {R"({"batch": {"global": 1}})", "/batch/global", {"did you mean 2?"}},
      {R"({"parallel": {"data": 3}})",
       "/batch/global",
       {"8", "multiple of 6", "batch.micro × parallel.data", "mean 6?"}},
      {R"({"parallel": {"data": 4}})", "", {}},
      {R"({"training": {"learning_rate": {"minimum": 0.001}}})",
       "/training/learning_rate/minimum",
       {"0.001", "at most training.learning_rate.peak"}},
      {R"({"training": {"learning_rate": {"warmup_steps": 101}}})",
       "/training/learning_rate/warmup_steps",
       {"101", "at most training.steps (100)", "did you mean 100?"}},
      {R"({"training": {"learning_rate": {"warmup_steps": 50, "decay_steps": 40}}})",
       "/training/learning_rate/decay_steps",
       {"40", "at least", "(50)"}},
      {R"({"training": {"learning_rate": {"warmup_steps": 100}}})", "", {}},
      {R"({"training": {"evaluate_every": 5}, "data": {"train": [{"path": "a.txt"}]}})",
       "/training/evaluate_every",
       {"nothing to evaluate", "data.validation"}},
      {R"({"training": {"evaluate_every": 5}})", "", {}},
  });
}

TEST_CASE("Ranks must divide what they split", "[recipe]") {
  check({
      {R"({"parallel": {"tensor": 3}})", "/parallel/tensor", {"3 does not divide 8", "model.heads", "did you mean 2?"}},
      {R"({"model": {"kv_heads": 4}, "parallel": {"tensor": 8}})", "", {}},
      {R"({"model": {"heads": 12, "kv_heads": 6, "head_dim": 8}, "parallel": {"tensor": 4}})",
       "/parallel/tensor",
       {"4 does not divide 6", "model.kv_heads"}},
      {R"({"model": {"kv_heads": 4, "ffn_hidden_size": 99}, "parallel": {"tensor": 2}})",
       "/parallel/tensor",
       {"2 does not divide 99", "ffn_hidden_size"}},
      {R"({"batch": {"sequence_length": 100}, "parallel": {"tensor": 8}})",
       "/batch/sequence_length",
       {"100 is not a multiple of 8", "parallel.sequence", "did you mean 104?"}},
      {R"({"batch": {"sequence_length": 100}, "parallel": {"tensor": 8, "sequence": false}})", "", {}},
      {R"({"parallel": {"context": 3}})", "/batch/sequence_length", {"128", "multiple of parallel.context"}},
      {R"({"parallel": {"expert": 2}})", "/parallel/expert", {"must be 1 without model.moe", "did you mean 1?"}},
      {R"({"model": {"moe": {"experts": 8}}, "parallel": {"expert": 3}})", "/parallel/expert", {"did you mean 2?"}},
      {R"({"model": {"moe": {"experts": 8}}, "parallel": {"expert": 4, "data": 2}})",
       "/parallel/expert",
       {"4 does not divide 2", "parallel.data"}},
      {R"({"model": {"moe": {"experts": 8}}, "parallel": {"expert_tensor": 3}})",
       "/parallel/expert_tensor",
       {"does not divide 256"}},
      {R"({"parallel": {"data": 4, "zero_shard_ranks": 3}})", "/parallel/zero_shard_ranks", {"3 does not divide 4"}},
      {R"({"parallel": {"data": 2, "tensor": 2}, "launch": {"ranks": 8}})", "/launch/ranks", {"8", "did you mean 4?"}},
      {R"({"parallel": {"tensor": 4}, "launch": {"ranks": 6}})", "/launch/ranks", {"6 is not a multiple of 4"}},
      {R"({"parallel": {"tensor": 4}, "launch": {"ranks": 8}})", "", {}},
  });
}

TEST_CASE("Layers must fall on the stages as the balance says", "[recipe]") {
  check({
      {R"({"parallel": {"pipeline": 3}})", "/model/layers", {"4 layers do not fall evenly on 3 stages", "mean 3?"}},
      {R"({"parallel": {"pipeline": 8}})", "/model/layers", {"did you mean 8?"}},
      {R"({"pipeline": {"loops": 3}})", "/model/layers", {"3 stages"}},
      {R"({"pipeline": {"loops": 4, "schedule": "gpipe"}})", "", {}},
      {R"({"parallel": {"pipeline": 3}, "pipeline": {"balance": "blocks"}})", "", {}},
      {R"({"parallel": {"pipeline": 4}, "pipeline": {"balance": "blocks"}})",
       "/model/layers",
       {"4 layers, embedding and head", "layers + 2", "did you mean 6?"}},
      {R"({"parallel": {"pipeline": 2}, "pipeline": {"balance": [4]}})", "/pipeline/balance", {"1 entries", "= 2"}},
      {R"({"parallel": {"pipeline": 2}, "pipeline": {"balance": [1, 2]}})",
       "/pipeline/balance",
       {"holds 3 layers", "model.layers = 4"}},
      {R"({"parallel": {"pipeline": 4}, "pipeline": {"balance": [2, 0, 2, 0]}})", "/pipeline/balance/1", {"empty"}},
      {R"({"parallel": {"pipeline": 4}, "pipeline": {"balance": [0, 2, 2, 0]}})", "", {}},
      {R"({"parallel": {"pipeline": 2}, "pipeline": {"schedule": "1f1b", "loops": 2}})",
       "/pipeline/loops",
       {"one stage a rank", "did you mean 1?"}},
      {R"({"parallel": {"pipeline": 2}, "pipeline": {"schedule": "gpipe", "loops": 2}})", "/pipeline/loops", {}},
      {R"({"parallel": {"pipeline": 2, "data": 4}, "pipeline": {"schedule": "interleaved", "loops": 2}})",
       "/batch/global",
       {"8 is not a multiple of 16", "interleaved"}},
      {R"({"parallel": {"pipeline": 2, "data": 2}, "pipeline": {"schedule": "interleaved", "loops": 2}})", "", {}},
      {R"({"parallel": {"pipeline": 2, "data": 4}, "pipeline": {"schedule": "interleaved"}})", "", {}},
      {R"({"parallel": {"pipeline": 2}, "pipeline": {"schedule": "interleaved", "loops": 2}})", "", {}},
  });
}

TEST_CASE("Products of sizes that no computer can count are refused", "[recipe]") {
  check({
      {R"({"model": {"layers": 10000, "hidden_size": 1048576}})", "/model", {"parameters", "at most 1e15"}},
      {R"({"model": {"max_sequence_length": 16777216, "heads": 64},
           "batch": {"micro": 1048576, "global": 1048576}})",
       "/batch/micro",
       {"too large"}},
      {R"({"training": {"steps": 1000000000000}, "batch": {"global": 8388608}})", "/training/steps", {"at most 1e18"}},
      {R"({"batch": {"global": 2097152}, "parallel": {"data": 1048576, "context": 128}})", "/parallel", {"2^24 ranks"}},
  });
}

TEST_CASE("An unknown key beside the one that was meant hides nothing", "[recipe]") {
  CHECK(complaints_of(R"({"modle": {}, "model": {"kv_heads": 3}})").size() == 2);
}

TEST_CASE("What follows from a wrong value is not told again", "[recipe]") {
  check({
      {R"({"model": {"heads": 0, "kv_heads": 3}})", "/model/heads", {}},
      {R"({"model": {"hidden_size": -1, "position": "rope"}})", "/model/hidden_size", {}},
      {R"({"batch": {"micro": 0}, "parallel": {"data": 3}})", "/batch/micro", {}},
      {R"({"model": {"layers": 0}, "parallel": {"pipeline": 3}})", "/model/layers", {}},
      {R"({"model": {"head_dims": 10, "heads": 6}})", "/model/head_dims", {}},
      {R"({"model": 5})", "/model", {}},
      {R"({"model": {"moe": 5}, "parallel": {"expert": 2}})", "/model/moe", {}},
  });
}

}  // namespace
}  // namespace llmtrain
