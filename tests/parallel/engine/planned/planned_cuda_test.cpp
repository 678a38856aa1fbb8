// SPDX-License-Identifier: Apache-2.0
// A step on a GPU, emulated here, needs the memory that its plan predicts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/parallel/engine/planned/planned_run.h"

namespace llmtrain::test {
namespace {

const Overrides gpu{"cluster.device=\"cuda\""};

Overrides with_weights_on_host(Overrides more) {
  for (const char* key : {"parallel.zero_stage=3", "memory.offload.optimizer=true", "memory.offload.weights=true"})
    more.emplace_back(key);
  return more;
}

const std::vector<Overrides> recipes{
    {},
    {"precision.compute=\"bf16\""},
    {"precision.compute=\"bf16\"", "memory.recompute=\"full\""},
    {"precision.compute=\"bf16\"", "memory.recompute=\"selective\"", "batch.micro=4"},
    {"precision.compute=\"fp16\"", "model.architecture=\"gpt2\"", "batch.micro=8"},
    {"model.architecture=\"gpt2\"", "model.dropout=0.1", "batch.micro=4"},
    {"precision.compute=\"bf16\"", "model.vocab_size=8192", "model.tie_embeddings=true", "batch.micro=8"},
    {"batch.global=64", "batch.micro=64"},
    {"precision.compute=\"bf16\"", "batch.global=64", "batch.micro=64", "model.kv_heads=4"},
    {"precision.compute=\"bf16\"", "batch.global=64", "batch.micro=64", "memory.recompute=\"selective\""},
    {"model.architecture=\"gpt2\"", "model.dropout=0.1", "batch.global=32", "batch.micro=32",
     "precision.compute=\"bf16\""},
    {"precision.compute=\"bf16\"", "model.qk_norm=true", "batch.global=32", "batch.micro=32",
     "memory.recompute=\"full\""},
    {R"(data.document_mask={"end_of_text": 10})", "batch.micro=8"},
    // With few sequences FlashAttention's sums would take many times cuDNN's memory, where a step has its peak.
    {"precision.compute=\"bf16\"", "kernels.attention=\"cudnn\""},
    {"precision.compute=\"bf16\"", "precision.fp8_level=\"O0\"", "batch.global=64", "batch.micro=64",
     "model.moe={\"experts\": 4, \"top_k\": 2, \"ffn_hidden_size\": 256, \"capacity_factor\": 0}"},
    {"precision.compute=\"bf16\"", "pipeline.loops=4", "kernels.attention=\"math\"", "batch.micro=4"},
    {"memory.offload.optimizer=true"},
    {"precision.compute=\"bf16\"", "memory.offload.optimizer=true", "memory.recompute=\"full\""},
    {"batch.global=64", "batch.micro=64", "memory.offload.activations=true"},
    {"precision.compute=\"bf16\"", "batch.global=64", "batch.micro=16", "memory.offload.activations=true"},
    {"precision.compute=\"bf16\"", "batch.global=64", "batch.micro=64", "memory.offload.activations=true",
     "memory.recompute=\"selective\""},
    {"precision.compute=\"bf16\"", "batch.global=64", "batch.micro=64", "memory.offload.activations=true",
     "pipeline.loops=4"},
    with_weights_on_host({"pipeline.loops=4"}),
    with_weights_on_host({"precision.compute=\"bf16\"", "pipeline.loops=4", "model.vocab_size=4096"}),
    with_weights_on_host({"precision.compute=\"bf16\"", "pipeline.loops=2", "pipeline.schedule=\"1f1b\"",
                          "batch.global=4", "memory.recompute=\"full\""}),
    with_weights_on_host({"precision.compute=\"bf16\"", "pipeline.loops=4", "memory.offload.activations=true",
                          "batch.global=64", "batch.micro=64"}),
};

}  // namespace

TEST_CASE("a step on a GPU needs the planned memory") {
  const TrainingSetting setting;
  for (const Overrides& recipe : recipes) check_layout(setting, {1, gpu + recipe});
}

TEST_CASE("a step on a GPU whose states are on a disk moves the planned bytes") {
  const TrainingSetting setting;
  const std::string bf16 = "precision.compute=\"bf16\"";
  const Overrides on_disk = gpu + Overrides{"memory.offload.folder=\"" + setting.directory().path().string() + "\""};
  for (Overrides recipe : std::vector<Overrides>{{"memory.offload.optimizer=true"},
                                                 {"memory.offload.optimizer=true", bf16, "model.vocab_size=9000"},
                                                 with_weights_on_host({"pipeline.loops=4"}),
                                                 with_weights_on_host({bf16, "pipeline.loops=4"})}) {
    *std::ranges::find(recipe, "memory.offload.optimizer=true") = "memory.offload.optimizer=\"disk\"";
    check_layout(setting, {1, on_disk + recipe});
  }
}

// Their communicators stage through the host, in other memory than the GPU's.
TEST_CASE("ranks with GPUs send the planned bytes, and need the planned memory") {
  const TrainingSetting setting;
  const std::string bf16 = "precision.compute=\"bf16\"", documents = R"(data.document_mask={"end_of_text": 10})";
  for (const RankCase& layout : std::vector<RankCase>{{2, {bf16, zero(3), "pipeline.loops=4"}},
                                                      {2, {bf16, zero(3), "memory.offload.optimizer=true"}},
                                                      {2, with_weights_on_host({bf16, "pipeline.loops=4"})},
                                                      {2, with_weights_on_host({"parallel.pipeline=2"})},
                                                      {2, {"parallel.pipeline=2", "memory.offload.activations=true"}},
                                                      {2, {bf16, "parallel.context=2", "batch.micro=8"}},
                                                      {2, {bf16, "parallel.context=2", "batch.micro=8", documents}},
                                                      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}}})
    check_layout(setting, {layout.ranks, gpu + layout.overrides});
}

}  // namespace llmtrain::test
