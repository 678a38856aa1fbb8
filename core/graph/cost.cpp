// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graph.h"

namespace llmtrain {

namespace {

// What one token costs in a block, and what the block reads once however many tokens pass.
struct Work {
  double flops_per_token = 0;
  double elements_per_token = 0;
  double weight_elements = 0;
};

bool is_matrix(const Parameter& parameter) { return parameter.shape.size() == 2; }

Work embedding_work(const Graph& graph) {
  const auto hidden = static_cast<double>(graph.model.hidden_size);
  Work work;
  work.elements_per_token = graph.model.position == Position::learned ? 3 * hidden : 2 * hidden;
  if (graph.model.dropout > 0) work.elements_per_token += 2 * hidden;
  return work;
}

// Elements that attention with its per-head norms and rotation reads and writes for one token.
double attention_elements(const ModelRecipe& model, double sequence_length) {
  const auto query = static_cast<double>(model.heads * model.head_dim);
  const auto key = static_cast<double>(model.kv_heads * model.head_dim);
  double elements = 2 * query + 2 * key;
  if (model.qk_norm) elements += 2 * (query + key);
  if (model.position == Position::rope) elements += 2 * (query + key);
  // The scores' row passes through both matrix products, the softmax and the mask.
  if (model.dropout > 0) elements += 6 * static_cast<double>(model.heads) * sequence_length;
  return elements;
}

Work layer_work(const Graph& graph, const Block& block, double sequence_length) {
  const ModelRecipe& model = graph.model;
  const auto hidden = static_cast<double>(model.hidden_size);
  const auto inner = static_cast<double>(model.ffn_hidden_size);
  Work work;
  work.flops_per_token = 4 * sequence_length * static_cast<double>(model.heads * model.head_dim);
  double linear_outputs = 0;
  for (const std::size_t index : block.parameters) {
    const Parameter& parameter = graph.parameters[index];
    work.weight_elements += static_cast<double>(parameter.elements());
    if (!is_matrix(parameter)) continue;
    work.flops_per_token += 2 * static_cast<double>(parameter.elements());
    linear_outputs += static_cast<double>(parameter.shape[0]);
  }
  // The fused products read their input once: hidden for query-key-value and for gate-up.
  const double linear_inputs = 2 * hidden + static_cast<double>(model.heads * model.head_dim) + inner;
  const double activation = model.activation == Activation::swiglu ? 3 * inner : 2 * inner;
  const double norms = 2 * 2 * hidden;
  const double additions = 2 * 3 * hidden;
  const double dropouts = model.dropout > 0 ? 2 * 2 * hidden : 0;
  work.elements_per_token = linear_inputs + linear_outputs + activation + norms + additions + dropouts +
                            attention_elements(model, sequence_length);
  return work;
}

Work head_work(const Graph& graph, const Block& block) {
  const auto hidden = static_cast<double>(graph.model.hidden_size);
  const auto vocabulary = static_cast<double>(graph.model.vocab_size);
  Work work;
  work.flops_per_token = 2 * hidden * vocabulary;
  // Norm, product, and the cross-entropy that reads the logits again.
  work.elements_per_token = 2 * hidden + (hidden + vocabulary) + vocabulary;
  for (const std::size_t index : block.parameters)
    work.weight_elements += static_cast<double>(graph.parameters[index].elements());
  if (graph.model.tie_embeddings) work.weight_elements += static_cast<double>(graph.logits_weight().elements());
  return work;
}

Work block_work(const Graph& graph, const Block& block, double sequence_length) {
  switch (block.kind) {
    case BlockKind::embedding:
      return embedding_work(graph);
    case BlockKind::layer:
      return layer_work(graph, block, sequence_length);
    case BlockKind::head:
      return head_work(graph, block);
  }
  return {};
}

}  // namespace

BlockCost Graph::cost(std::size_t block, std::int64_t tokens, std::int64_t sequence_length,
                      double bytes_per_element) const {
  const Work work = block_work(*this, blocks.at(block), static_cast<double>(sequence_length));
  const auto count = static_cast<double>(tokens);
  BlockCost result;
  result.forward_flops = work.flops_per_token * count;
  result.backward_flops = 2 * result.forward_flops;
  result.forward_bytes = (work.elements_per_token * count + work.weight_elements) * bytes_per_element;
  return result;
}

double Graph::training_flops_per_token(std::int64_t sequence_length) const {
  double flops = 0;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    const BlockCost per_token = cost(block, 1, sequence_length, 0);
    flops += per_token.forward_flops + per_token.backward_flops;
  }
  return flops;
}

}  // namespace llmtrain
