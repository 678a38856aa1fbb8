// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/block_parameters.h"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "tests/core/model/small_model.h"

namespace llmtrain {
namespace {

using Catch::Contains;

// The first layer of GPT-2, whose query, key and value are one product.
struct Layer {
  Layer() { stores.add(store); }

  Graph graph = Graph::build(test::gpt2_model());
  ParameterStore store{graph, graph.blocks[1].parameters, {}};
  ParameterStores stores;
  BlockParameters parameters{graph, 1, stores, TensorSplit(nullptr, ActivationRows::whole), std::nullopt};
};

TEST_CASE("a parameter of a name that its block lacks is refused with the names that it has") {
  const Layer layer;
  CHECK_THROWS_WITH(layer.parameters.bind("attention.qurey.weight"),
                    Contains("attention.qurey.weight") && Contains("attention.query.weight"));
  CHECK_FALSE(layer.parameters.bind_if_there("attention.query_norm.weight"));
}

TEST_CASE("a block's parameter that no module binds is an error") {
  const Layer layer;
  for (const char* name : {"attention_norm", "ffn_norm"}) layer.parameters.norm(name, {});
  layer.parameters.column_linear("attention.query");
  layer.parameters.column_linear("ffn.up");
  layer.parameters.row_linear("ffn.down");
  layer.parameters.bind("attention.output.weight");
  // As of a module that looks for a bias of another name.
  CHECK_FALSE(layer.parameters.bind_if_there("attention.output.bais"));
  CHECK_THROWS_WITH(layer.parameters.require_all_bound(), Contains("layers.0.attention.output.bias"));
  layer.parameters.bind("attention.output.bias");
  CHECK_NOTHROW(layer.parameters.require_all_bound());
}

}  // namespace
}  // namespace llmtrain
