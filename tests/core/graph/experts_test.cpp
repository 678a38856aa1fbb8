// SPDX-License-Identifier: Apache-2.0
#include "core/graph/pass_setting.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/operators/distinct_places.h"
#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

using Shape = std::vector<std::int64_t>;

// A small GPT-2 with four layers and eight experts in every second one.
ModelRecipe small_mixture() {
  ModelRecipe model = test::gpt2_model(4, 64, 4);
  model.moe = MixtureOfExpertsRecipe{.experts = 8, .top_k = 2, .every = 2, .ffn_hidden_size = 96};
  return model;
}

std::vector<std::string> names_of(const Graph& graph, std::size_t block, const std::string& part) {
  std::vector<std::string> names;
  for (const std::size_t index : graph.blocks[block].parameters)
    if (graph.parameters[index].name.find(part) != std::string::npos) names.push_back(graph.parameters[index].name);
  return names;
}

TEST_CASE("parameter counts of published mixtures of experts") {
  const Graph mixtral = Graph::build(test::mixtral_8x7b());
  CHECK(mixtral.parameter_count() == 46'702'792'704);
  CHECK(mixtral.active_parameter_count() == 12'879'925'248);
  const Graph qwen = Graph::build(test::qwen3_30b_a3b());
  CHECK(qwen.parameter_count() == 30'532'122'624);
  CHECK(qwen.active_parameter_count() == 3'353'032'704);
}

TEST_CASE("all parameters of a dense model are active") {
  const Graph graph = Graph::build(test::qwen3_600m());
  CHECK(graph.active_parameter_count() == graph.parameter_count());
}

TEST_CASE("the last layer of each interval has experts") {
  ModelRecipe model = small_mixture();
  const Graph graph = Graph::build(model);
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    const auto block = static_cast<std::size_t>(layer + 1);
    CHECK(has_experts(model, layer) == (layer == 1 || layer == 3));
    CHECK(graph.has_parameter(block, "ffn.experts.up.weight") == has_experts(model, layer));
    CHECK(graph.has_parameter(block, "ffn.up.weight") == !has_experts(model, layer));
  }
  model.moe->every = 1;
  for (std::int64_t layer = 0; layer < 4; ++layer) CHECK(has_experts(model, layer));
  CHECK_FALSE(has_experts(test::gpt2_model(4, 64, 4), 0));
}

TEST_CASE("names, shapes and axes of experts") {
  const Graph graph = Graph::build(small_mixture());
  CHECK(names_of(graph, 2, ".ffn.") ==
        std::vector<std::string>{"layers.1.ffn.router.weight", "layers.1.ffn.experts.up.weight",
                                 "layers.1.ffn.experts.up.bias", "layers.1.ffn.experts.down.weight",
                                 "layers.1.ffn.experts.down.bias"});
  const Parameter& up = graph.parameter(2, "ffn.experts.up.weight");
  CHECK(up.shape == Shape{8, 96, 64});
  CHECK(up.has_expert_axis);
  CHECK(up.split == Split{Split::Kind::even, 1, up.shape[1]});
  CHECK(up.standard_deviation == 0.02);
  CHECK(up.decays);
  const Parameter& down = graph.parameter(2, "ffn.experts.down.weight");
  CHECK(down.shape == Shape{8, 64, 96});
  CHECK(down.split == Split{Split::Kind::even, 2, down.shape[2]});
  CHECK(down.standard_deviation == Approx(0.02 / std::sqrt(8.0)));
  CHECK(graph.parameter(2, "ffn.experts.up.bias").shape == Shape{8, 96});
  CHECK_FALSE(graph.parameter(2, "ffn.experts.down.bias").decays);
  const Parameter& router = graph.parameter(2, "ffn.router.weight");
  CHECK(router.shape == Shape{8, 64});
  CHECK(router.split == Split{});
  CHECK_FALSE(router.has_expert_axis);
}

TEST_CASE("shared experts are one wide feed-forward network, and gates are next to ups") {
  ModelRecipe model = test::mixtral_8x7b();
  model.layers = 1;
  model.moe->shared_experts = 2;
  const Graph graph = Graph::build(model);
  CHECK(names_of(graph, 1, ".ffn.") ==
        std::vector<std::string>{"layers.0.ffn.router.weight", "layers.0.ffn.shared.gate.weight",
                                 "layers.0.ffn.shared.up.weight", "layers.0.ffn.shared.down.weight",
                                 "layers.0.ffn.experts.gate.weight", "layers.0.ffn.experts.up.weight",
                                 "layers.0.ffn.experts.down.weight"});
  CHECK(graph.parameter(1, "ffn.shared.up.weight").shape == Shape{2 * 14336, 4096});
  CHECK_FALSE(graph.parameter(1, "ffn.shared.up.weight").has_expert_axis);
}

TEST_CASE("the gate of shared experts is a row, which keeps its type at FP8 levels") {
  ModelRecipe model = small_mixture();
  model.moe->shared_experts = 1;
  CHECK_FALSE(Graph::build(model).has_parameter(2, "ffn.shared_gate.weight"));
  model.moe->shared_gate = true;
  const Graph graph = Graph::build(model);
  const Parameter& gate = graph.parameter(2, "ffn.shared_gate.weight");
  CHECK(gate.name == "layers.1.ffn.shared_gate.weight");
  CHECK(gate.shape == Shape{1, 64});
  CHECK(gate.decays);
  CHECK_FALSE(gate.is_layer_matrix);
  CHECK(gate.split == Split{});
}

TEST_CASE("the cosine router projects into a narrower space") {
  ModelRecipe model = small_mixture();
  model.moe->router = Router::cosine;
  const Graph graph = Graph::build(model);
  CHECK(graph.parameter(2, "ffn.router_projection.weight").shape == Shape{256, 64});
  CHECK(graph.parameter(2, "ffn.router.weight").shape == Shape{8, 256});
  CHECK(graph.parameter(2, "ffn.router.temperature").shape == Shape{1});
  CHECK_FALSE(graph.parameter(2, "ffn.router.temperature").decays);
}

TEST_CASE("capacity follows the published formula") {
  MixtureOfExpertsRecipe moe{.experts = 8, .top_k = 2, .capacity_factor = 1.0};
  CHECK(expert_capacity(moe, 4096) == 1024);
  moe.capacity_factor = 1.25;
  CHECK(expert_capacity(moe, 4096) == 1280);
  CHECK(expert_capacity(moe, 4097) == 2 * 641);  // ⌊1.25·513⌋
  for (const double dropless : {0.0, -1.5}) {
    moe.capacity_factor = dropless;
    CHECK(expert_capacity(moe, 4097) == 1026);
  }
  moe.capacity_factor = -0.5;
  CHECK(expert_capacity(moe, 4097) == 2 * 256);
}

TEST_CASE("the limit of an expert's tokens is the capacity, with either sign, and none at 0") {
  MixtureOfExpertsRecipe moe{.experts = 8, .top_k = 2, .capacity_factor = 0};
  CHECK_FALSE(expert_limit(moe, 4096));
  moe.capacity_factor = 1.25;
  CHECK(expert_limit(moe, 4097) == 2 * 641);
  moe.capacity_factor = -1.25;
  CHECK(expert_limit(moe, 4097) == 2 * 641);
  moe.capacity_factor = 0.001;
  CHECK(expert_limit(moe, 4097) == 0);
}

TEST_CASE("FLOPs count the experts that a token is routed to") {
  ModelRecipe model = test::mixtral_8x7b();
  const double expert = 2.0 * 3 * 4096 * 14336, router = 2.0 * 4096 * 8;
  const double attention = 2.0 * 4096 * (4096 + 2 * 1024 + 4096) + 4.0 * 512 * 4096;
  const auto layer = [&] {
    PassSetting setting;
    setting.tokens.sequence_length = 512;
    return forward_flops(test::operators_of(Graph::build(model), 1, setting)) / 512;
  };
  CHECK(layer() == Approx(attention + router + 2 * expert));
  model.moe->capacity_factor = 1.5;  // padding is not counted as work of the model
  CHECK(layer() == Approx(attention + router + 2 * expert));
  model.moe->capacity_factor = 0.5;
  CHECK(layer() == Approx(attention + router + expert));
  model.moe->capacity_factor = 0;
  model.moe->shared_experts = 1;
  CHECK(layer() == Approx(attention + router + 3 * expert));
}

TEST_CASE("a GPU's kernels read a token once for all its experts, and sum up routing in pieces") {
  const Graph graph = Graph::build(small_mixture());
  PassSetting setting{.program = {.kept_tensors = KeptTensors::core_model, .device = ComputeDevice::cuda}};
  setting.tokens.sequence_length = 512;
  const auto row = [&](const std::string& name) {
    for (const Operator& item : test::operators_of(graph, 2, setting))
      if (item.name == "feed_forward.experts." + name) return item;
    throw std::runtime_error("no operator " + name);
  };
  // Two experts of 64 numbers for each token. There: a token and its rows; back: rows and their sum. In the backward a
  // gradient, the rows and theirs; the rows again; their gradients and the sum of these.
  CHECK(row("dispatch").forward.elements == (1 + 2 + 2 + 1) * 64 * 512);
  CHECK(row("dispatch").backward.elements == ((1 + 2 + 2) + (1 + 2) + (2 + 1)) * 64 * 512);
  // 512 tokens are 8 pieces with 3 sums for each of 8 experts and 2 more; their choices are 2 pieces.
  CHECK(row("probabilities").forward_scratch == 8 * (8 * (3 * 8 + 2)) + 4 * (2 * 8));
  CHECK(row("probabilities").backward.elements == 4 * 512 * 8);
  setting.program.device = ComputeDevice::cpu;
  CHECK(row("dispatch").backward.elements == (3 * 2 + 1) * 64 * 512);
  CHECK(row("probabilities").forward_scratch == 0);
}

TEST_CASE("biases of experts are not matrix products") {
  ModelRecipe model = small_mixture();
  const double with = training_flops_per_sample(Graph::build(model), 32);
  model.bias = false;
  CHECK(training_flops_per_sample(Graph::build(model), 32) == with);
}

// The mean number of places that a token goes to, over all of its choices: of groups, and of experts in these.
double enumerated(const MixtureOfExpertsRecipe& moe, unsigned places) {
  const auto experts = static_cast<unsigned>(moe.experts), groups = static_cast<unsigned>(moe.groups);
  double reached = 0, ways = 0;
  for (std::uint32_t chosen_groups = 0; chosen_groups < 1U << groups; ++chosen_groups) {
    if (std::popcount(chosen_groups) != moe.top_groups) continue;
    for (std::uint32_t chosen = 0; chosen < 1U << experts; ++chosen) {
      if (std::popcount(chosen) != moe.top_k) continue;
      std::uint32_t in_places = 0, in_groups = 0;
      for (unsigned expert = 0; expert < experts; ++expert) {
        if ((chosen >> expert & 1U) == 0) continue;
        in_places |= 1U << expert * places / experts;
        in_groups |= 1U << expert * groups / experts;
      }
      if ((in_groups & ~chosen_groups) != 0) continue;
      reached += std::popcount(in_places);
      ++ways;
    }
  }
  return reached / ways;
}

TEST_CASE("a token goes to as many places as all of its choices have on average") {
  for (const std::int64_t top_groups : {1, 2, 3, 4})
    for (const std::int64_t top_k : {1, 2, 3})
      for (const unsigned places : {1U, 2U, 4U, 12U}) {
        const MixtureOfExpertsRecipe moe{.experts = 12, .top_k = top_k, .groups = 4, .top_groups = top_groups};
        CAPTURE(top_groups, top_k, places);
        CHECK(distinct_share(moe, places) * static_cast<double>(top_k) ==
              Approx(enumerated(moe, places)).epsilon(1e-12));
      }
}

// DeepSeek-V3 (arXiv 2412.19437, section 2.1.2): each token is sent to at most 4 nodes.
TEST_CASE("a token of DeepSeek-V3 goes to at most four of eight nodes, and hardly to fewer") {
  const MixtureOfExpertsRecipe limited{.experts = 256, .top_k = 8, .groups = 8, .top_groups = 4};
  const MixtureOfExpertsRecipe free{.experts = 256, .top_k = 8};
  CHECK(8 * distinct_share(limited, 8) < 4);
  CHECK(8 * distinct_share(limited, 8) > 3.6);
  CHECK(8 * distinct_share(free, 8) > 5.2);
}

}  // namespace
}  // namespace llmtrain
