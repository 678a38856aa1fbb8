// SPDX-License-Identifier: Apache-2.0
// A layer with a narrower network and fewer key heads computes what a wide one does whose further features count for
// nothing and whose key heads are equal.
#include "tests/core/graph/differing_layers.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

constexpr std::int64_t narrow_width = 20;

ModelRecipe narrower(ModelRecipe model) {
  model.ffn_hidden_size = narrow_width;
  model.kv_heads = 1;
  return model;
}

std::string in_layer(const char* name) { return std::string("layers.1.") + name + ".weight"; }

// Gives the wide model the weights of the narrow one.
void widen(const SmallModel& narrow, const SmallModel& wide) {
  for (const auto& [name, weight] : wide.weights()) {
    const at::Tensor to = wide.weight(name), from = narrow.weight(name);
    if (to.sizes() == from.sizes()) to.copy_(from);
  }
  for (const char* const name : {"ffn.gate", "ffn.up"})
    wide.weight(in_layer(name)).narrow(0, 0, narrow_width).copy_(narrow.weight(in_layer(name)));
  wide.weight(in_layer("ffn.down")).zero_().narrow(1, 0, narrow_width).copy_(narrow.weight(in_layer("ffn.down")));
  for (const char* const name : {"attention.key", "attention.value"})
    wide.weight(in_layer(name)).copy_(narrow.weight(in_layer(name)).repeat({2, 1}));
}

// What the narrow model's gradients are by those of the wide one.
NamedTensors narrowed(NamedTensors gradients) {
  for (const char* const name : {"ffn.gate", "ffn.up"})
    gradients[in_layer(name)] = gradients.at(in_layer(name)).narrow(0, 0, narrow_width);
  gradients[in_layer("ffn.down")] = gradients.at(in_layer("ffn.down")).narrow(1, 0, narrow_width);
  for (const char* const name : {"attention.key", "attention.value"}) {
    const at::Tensor both = gradients.at(in_layer(name));
    gradients[in_layer(name)] = both.view({2, both.size(0) / 2, both.size(1)}).sum(0);
  }
  return gradients;
}

}  // namespace

TEST_CASE("a narrow layer beside a wide one is a wide one of which a part counts") {
  const ModelRecipe model = llama_model();
  REQUIRE(model.kv_heads == 2);
  const Graph graph = with_layers(Graph::build(model), {{1, Graph::build(narrower(model))}});
  const PassInput input = random_input(model);
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    const SmallModel::Options options{.recompute = recompute, .type = at::kDouble};
    SmallModel narrow(graph, options), wide(model, options);
    widen(narrow, wide);
    CHECK(distance(narrow.learn(input), wide.learn(input)) < 1e-10);
    check_gradients(narrow.take_gradients(), narrowed(wide.take_gradients()), 1e-10);
  }
}

TEST_CASE("each layer rotates by its own angles, drops by its own rate and has its own norms") {
  const ModelRecipe model = qwen_model();
  const PassInput input = random_input(model);
  const auto losses = [&](void (*change)(LayerSettings&)) {
    Graph graph = Graph::build(model);
    change(std::get<LayerSettings>(graph.blocks[2].settings));
    return SmallModel(std::move(graph), {.type = at::kDouble}).forward(input);
  };
  const at::Tensor expected = SmallModel(model, {.type = at::kDouble}).forward(input);
  CHECK(at::equal(losses([](LayerSettings&) {}), expected));
  CHECK(distance(losses([](LayerSettings& layer) { layer.attention.rope->theta = 3; }), expected) > 1e-3);
  CHECK(distance(losses([](LayerSettings& layer) { layer.attention.dropout = 0.5; }), expected) > 1e-3);
  CHECK(distance(losses([](LayerSettings& layer) { layer.dropout = 0.5; }), expected) > 1e-3);
  CHECK(distance(losses([](LayerSettings& layer) { layer.norm.epsilon = 3; }), expected) > 1e-3);
  CHECK(distance(losses([](LayerSettings& layer) { layer.attention.head_norm_epsilon = 3; }), expected) > 1e-3);
}

}  // namespace llmtrain::test
