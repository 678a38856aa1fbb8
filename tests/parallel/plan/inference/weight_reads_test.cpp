// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/weight_reads.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "core/base/error.h"
#include "tests/parallel/plan/inference/inference_case.h"

namespace llmtrain {
namespace {

using namespace inference_case;

// GPT-2's layers: 12 E² + 13 E weights of 2 bytes, filled up to whole blocks of a disk.
double layer_bytes(double hidden) { return std::ceil(2 * (12 * hidden * hidden + 13 * hidden) / 4096) * 4096; }

Recipe gpt(int layers, int hidden, int heads) {
  return bundled("models/gpt2", {"model.layers=" + std::to_string(layers), "model.kv_heads=" + std::to_string(heads),
                                 "model.hidden_size=" + std::to_string(hidden), "model.heads=" + std::to_string(heads),
                                 "model.ffn_hidden_size=" + std::to_string(4 * hidden), "precision.compute=\"fp16\""});
}

ClusterProfile with_links(const Recipe& recipe, const std::string& name, double link, double disk) {
  Recipe on = recipe;
  on.cluster.profile = name;
  ClusterProfile profile = profile_of(on);
  profile.device.pcie_bandwidth = link;
  profile.host.disk_bandwidth = disk;
  return profile;
}

InferencePlan plan_of(const Recipe& recipe, const ClusterProfile& profile, const std::string& request) {
  return InferencePlanner(recipe, profile).plan(request_of("prompt=4,generated=10," + request));
}

}  // namespace

TEST_CASE("a pass takes the longer of computing and of reading the layers that are not in memory", "[weight_reads]") {
  const Recipe recipe = gpt(12, 768, 12);
  const double layer = layer_bytes(768);
  const ClusterProfile slow = with_links(recipe, "a100-80gb", 1e8, 2e7);
  const InferencePlan host = plan_of(recipe, slow, "weights_from=host");
  CHECK(host.per_token_seconds == Approx(12 * layer / 1e8));
  // No pass hides the first layer of the first one.
  CHECK(host.first_token_seconds == Approx(13 * layer / 1e8));
  CHECK(plan_of(recipe, slow, "weights_from=disk").per_token_seconds == Approx(12 * layer / 2e7));
  const InferencePlan fast = plan_of(recipe, with_links(recipe, "a100-80gb", 1e15, 1e15), "weights_from=disk");
  CHECK(fast.per_token_seconds == Approx(plan_of(recipe, slow, "devices=1").per_token_seconds));
  // Memory is what stays and two layers on their way; what is given beyond keeps layers there.
  const double all = plan_of(recipe, slow, "devices=1").memory.weights;
  CHECK(host.memory.weights == Approx(all - 10 * layer).epsilon(1e-4));
  const InferencePlan more = plan_of(
      recipe, slow, "weights_from=host,weight_memory=" + std::to_string(std::llround(host.memory.weights + 4 * layer)));
  CHECK(more.per_token_seconds == Approx(8 * layer / 1e8));
}

// ZeRO-Inference on a V100 with weights in the host's memory (DeepSpeed's blog, "ZeRO-Inference: Democratizing massive
// model inference", September 2022, tables 2 and 3): batch, parameters that stay on the GPU, tokens per second. The
// link's bandwidth is that of the third row, whose figures have two digits.
TEST_CASE("one bandwidth plans published times of weights that come from the host", "[weight_reads]") {
  constexpr double link = 10.1e9;
  struct Row {
    int layers, hidden, heads, batch;
    double pinned, tokens_per_second;
  };
  for (const Row& row :
       {Row{48, 7168, 56, 64, 12e9, 18}, Row{48, 7168, 56, 128, 10e9, 32}, Row{48, 7168, 56, 256, 0, 43},
        Row{96, 12288, 96, 64, 0, 2.0}, Row{70, 14336, 112, 64, 0, 2.0}}) {
    const Recipe recipe = gpt(row.layers, row.hidden, row.heads);
    const ClusterProfile profile = with_links(recipe, "v100-32gb", link, 0);
    std::string request = "weights_from=host,batch=" + std::to_string(row.batch);
    if (row.pinned > 0)
      request += ",weight_memory=" + std::to_string(std::llround(2 * row.pinned + 2 * layer_bytes(row.hidden)));
    const InferencePlan plan = plan_of(recipe, profile, request);
    CHECK(row.batch / plan.per_token_seconds == Approx(row.tokens_per_second).epsilon(0.1));
  }
}

TEST_CASE("requests whose weights cannot be read so are refused by name", "[weight_reads]") {
  const Recipe recipe = gpt(2, 768, 12);
  const ClusterProfile profile = with_links(recipe, "a100-80gb", 1e9, 1e9);
  const auto refusal = [&](const ClusterProfile& on, const std::string& request) -> std::string {
    try {
      plan_of(recipe, on, request);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(refusal(profile, "weights_from=disk,devices=2"),
             Catch::Contains("weights_from \"disk\"") && Catch::Contains("devices=1"));
  CHECK_THAT(refusal(profile, "weights_from=disk,weights=int8"), Catch::Contains("weights \"int8\""));
  CHECK_THAT(refusal(profile, "weight_memory=1GiB"), Catch::Contains("weights_from=disk"));
  CHECK_THAT(refusal(profile, "weights_from=disk,weight_memory=1KiB"), Catch::Contains("weight_memory 1024"));
  CHECK_THAT(refusal(profile, "weights_from=disk,weight_memory=many"), Catch::Contains("weight_memory"));
  CHECK_THAT(refusal(with_links(recipe, "a100-80gb", 0, 0), "weights_from=host"),
             Catch::Contains("device.pcie_bandwidth"));
  CHECK_THAT(refusal(with_links(recipe, "cpu", 0, 0), "weights_from=host"), Catch::Contains("processor"));
}

}  // namespace llmtrain
