// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace llmtrain {

// Appends blocks and their parameters to a Graph in the order of the data: embedding, layers, head.
class GraphBuilder {
 public:
  // The roles of a feed-forward network, dense or of the experts.
  struct FeedForwardRoles {
    ParameterRole gate_weight, gate_bias, up_weight, up_bias, down_weight, down_bias;
  };

  explicit GraphBuilder(const ModelRecipe& model) { graph_.model = model; }

  void add_embedding();
  void add_layer(std::int64_t layer);
  void add_head();
  Graph take();

 private:
  // One linear layer: its name under the block's prefix, and how it is split.
  struct Linear {
    std::string name;
    ParameterRole role{};
    std::int64_t output = 0;
    std::int64_t input = 0;
    ShardAxis axis = ShardAxis::none;
    std::int64_t experts = 0;  // 0: no axis of experts
  };
  void begin(BlockKind kind, std::int64_t layer, std::string prefix);
  void add(Parameter parameter);
  void add_embedding_table(std::string name, ParameterRole role, std::int64_t rows);
  void add_weight(const Linear& linear);
  void add_bias(const Linear& linear);
  void add_ones(const std::string& name, ParameterRole role, std::int64_t size);
  void add_norm(const std::string& name, ParameterRole weight, ParameterRole bias);
  void add_attention();
  void add_router();
  void add_feed_forward(const std::string& name, const FeedForwardRoles& roles, std::int64_t inner,
                        std::int64_t experts);
  void add_experts();

  const ModelRecipe& model() const { return graph_.model; }
  double residual_std() const;

  Graph graph_;
  std::string prefix_;
};

}  // namespace llmtrain
