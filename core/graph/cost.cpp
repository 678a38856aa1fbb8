// SPDX-License-Identifier: Apache-2.0
#include "core/graph/experts.h"
#include "core/graph/graph.h"

namespace llmtrain {

namespace {

// What one token costs in a block, and what the block reads once however many tokens pass.
struct Work {
  double flops_per_token = 0;
  double padding_flops_per_token = 0;
  double elements_per_token = 0;
  double weight_elements = 0;
};

bool is_linear_weight(const Parameter& parameter) {
  return parameter.shape.size() == (parameter.has_expert_axis ? std::size_t{3} : std::size_t{2});
}

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

// Adds the products of one parameter: all of it for a token, or the share of the experts that the token goes to.
void add_products(const Graph& graph, const Parameter& parameter, Work& work) {
  work.weight_elements += static_cast<double>(parameter.elements());
  if (!is_linear_weight(parameter)) return;
  if (!parameter.has_expert_axis) {
    work.flops_per_token += 2 * static_cast<double>(parameter.elements());
    return;
  }
  const MixtureOfExpertsRecipe& moe = *graph.model.moe;
  const double of_one_expert = 2 * static_cast<double>(parameter.elements()) / static_cast<double>(moe.experts);
  const ExpertLoad load = expert_load(moe);
  work.flops_per_token += load.kept * of_one_expert;
  work.padding_flops_per_token += load.padding * of_one_expert;
}

// Elements that a feed-forward network of that width reads and writes for one token. The fused gate-up product reads
// its input once.
double feed_forward_elements(const ModelRecipe& model, double inner) {
  const auto hidden = static_cast<double>(model.hidden_size);
  const bool gated = model.activation == Activation::swiglu;
  const double projections = hidden + (gated ? 2 * inner : inner) + inner + hidden;
  const double activation = gated ? 3 * inner : 2 * inner;
  return projections + activation;
}

// The router, the experts with their places, and the copies that send tokens to them and bring the results together.
double experts_elements(const ModelRecipe& model) {
  const MixtureOfExpertsRecipe& moe = *model.moe;
  const auto hidden = static_cast<double>(model.hidden_size), experts = static_cast<double>(moe.experts);
  const auto inner = static_cast<double>(moe.ffn_hidden_size), shared = static_cast<double>(moe.shared_experts);
  const ExpertLoad load = expert_load(moe);
  const double places = load.kept + load.padding;
  const double router = hidden + 3 * experts;  // product, and the softmax over its result
  const double copies = 2 * places * hidden + (places + 1) * hidden;
  const double routed = places * feed_forward_elements(model, inner);
  return router + copies + routed + (shared > 0 ? feed_forward_elements(model, shared * inner) : 0);
}

Work layer_work(const Graph& graph, const Block& block, double sequence_length) {
  const ModelRecipe& model = graph.model;
  const auto hidden = static_cast<double>(model.hidden_size);
  const auto query = static_cast<double>(model.heads * model.head_dim);
  const auto key = static_cast<double>(model.kv_heads * model.head_dim);
  Work work;
  work.flops_per_token = 4 * sequence_length * query;
  for (const std::size_t index : block.parameters) add_products(graph, graph.parameters[index], work);
  // The fused query-key-value product reads its input once.
  const double projections = (hidden + query + 2 * key) + (query + hidden);
  const double norms = 2 * 2 * hidden;
  const double additions = 2 * 3 * hidden;
  const double dropouts = model.dropout > 0 ? 2 * 2 * hidden : 0;
  const double feed_forward = has_experts(model, block.layer)
                                  ? experts_elements(model)
                                  : feed_forward_elements(model, static_cast<double>(model.ffn_hidden_size));
  work.elements_per_token =
      projections + feed_forward + norms + additions + dropouts + attention_elements(model, sequence_length);
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
  result.padding_flops = work.padding_flops_per_token * count;
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
