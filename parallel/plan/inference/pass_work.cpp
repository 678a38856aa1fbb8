// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/pass_work.h"

#include <algorithm>
#include <cmath>

namespace llmtrain {
namespace {

std::int64_t parts(std::int64_t number, std::int64_t divisor) { return (number + divisor - 1) / divisor; }

// The head makes logits for the last token of each sequence alone.
bool is_head(const Graph& graph, std::size_t block) {
  return std::holds_alternative<HeadSettings>(graph.blocks[block].settings);
}

PassSetting setting_of(const Graph& graph, std::size_t block, DataType compute, const DeviceSplit& split,
                       const ServedPass& pass) {
  const std::int64_t expert_features = split.experts == ExpertLayout::features ? split.devices() : 1;
  return {.program = {.device = ComputeDevice::cuda, .attention = AttentionKernel::flash},
          .tokens = {.batch = parts(pass.sequences, split.gathering()),
                     .sequence_length = is_head(graph, block) ? 1 : pass.tokens},
          .shards = {.tensor = is_head(graph, block) ? split.devices() : split.feature_ranks(),
                     .expert_tensor = expert_features},
          .numbers = {.compute = compute}};
}

// How many of `experts` at least one of so many choices falls on, each as likely for any of them.
double touched_experts(double experts, double choices) {
  return experts * (1 - std::pow(1 - 1 / experts, std::max(1.0, choices)));
}

// Rows of the experts on one device, as even routing sends them.
MatrixProduct expert_product(const MixtureOfExpertsRecipe& moe, MatrixProduct product, const DeviceSplit& split,
                             const ServedPass& pass) {
  const double ranks = split.experts == ExpertLayout::experts ? as_real(split.devices()) : 1;
  const double experts = as_real(moe.experts), choices = pass.all_tokens() * as_real(moe.top_k);
  product.batch = touched_experts(experts, choices) / ranks;
  product.rows = choices / ranks / product.batch;
  return product;
}

// With 2d the devices of x divide the width of the model, which one side of each matrix of a layer is.
void divide_width(double width, std::int64_t ranks, MatrixProduct& product) {
  // One of them alone: the other may be as wide by chance.
  double& cut = product.inner == width ? product.inner : product.columns;
  cut /= as_real(ranks);
}

bool is_of_experts(const Graph& graph, std::size_t block, const Operator& item) {
  return item.matrix && graph.parameters[graph.blocks[block].parameters[*item.matrix]].has_expert_axis;
}

ServedProduct served_product(const Graph& graph, std::size_t block, const Operator& item, const DeviceSplit& split,
                             const ServedPass& pass) {
  ServedProduct served{item.product, false};
  if (item.matrix) served.of_layer = graph.parameters[graph.blocks[block].parameters[*item.matrix]].is_layer_matrix;
  if (is_of_experts(graph, block, item)) {
    served.is_grouped = true;
    served.product = expert_product(*graph.blocks[block].experts(), served.product, split, pass);
  } else if (served.of_layer) {
    divide_width(as_real(graph.blocks[block].hidden_size()), split.width_ranks(), served.product);
  }
  return served;
}

// Heads of a device: those of as many groups of keys as it needs. Heads of a model with one key head are padded.
double own_heads(const LayerShape& shape, std::int64_t ranks) { return std::ceil(shape.heads / as_real(ranks)); }
double own_key_heads(const LayerShape& shape, std::int64_t ranks) {
  return std::max(1.0, std::ceil(shape.key_heads / as_real(ranks)));
}

double seen(const LayerShape& shape, double context) {
  return shape.window > 0 ? std::min(context, shape.window) : context;
}

// The keys that all new tokens of a sequence see together.
double scores(const LayerShape& shape, const ServedPass& pass) {
  const double tokens = as_real(pass.tokens), context = as_real(pass.context);
  if (!pass.is_prefill()) return seen(shape, context);
  const double square = tokens * (context - tokens / 2);
  return shape.window > 0 ? std::min(square, tokens * shape.window) : square;
}

ServedAttention served_attention(const LayerShape& shape, const Operator& item, const DeviceSplit& split,
                                 const ServedPass& pass) {
  const AttentionShare share = attention_share(split, pass.sequences);
  const double sequences = as_real(share.sequences), heads = own_heads(shape, share.head_ranks);
  const double value_size = item.value_size > 0 ? item.value_size : item.product.inner;
  const double elements = pass.is_prefill() ? item.product.inner + value_size : shape.score_width + shape.value_width;
  ServedAttention attention;
  attention.flops = 2 * sequences * heads * elements * scores(shape, pass);
  attention.cached = cached_numbers(shape, split, pass);
  attention.sizes = {seen(shape, as_real(pass.context)), sequences * heads,
                     heads / own_key_heads(shape, share.head_ranks), item.product.inner};
  return attention;
}

}  // namespace

CachedNumbers cached_numbers(const LayerShape& shape, const DeviceSplit& split, const ServedPass& pass) {
  const AttentionShare share = attention_share(split, pass.sequences);
  const double of_heads =
      as_real(share.sequences) * seen(shape, as_real(pass.context)) * own_key_heads(shape, share.head_ranks);
  return {.elements = of_heads * shape.cached, .rows = of_heads * shape.cached_rows};
}

BlockWork block_work(const Graph& graph, std::size_t block, DataType compute, const DeviceSplit& split,
                     const ServedPass& pass) {
  const PassSetting setting = setting_of(graph, block, compute, split, pass);
  BlockWork work;
  for (const Operator& item : block_operators(graph, block, setting)) {
    switch (item.kind) {
      case OperatorKind::product:
        work.products.push_back(served_product(graph, block, item, split, pass));
        break;
      case OperatorKind::fused_attention:
      case OperatorKind::stored_attention:
        work.attention.push_back(served_attention(layer_shape(graph, block), item, split, pass));
        break;
      case OperatorKind::elementwise:
        work.moved_elements.push_back(item.forward.elements / as_real(split.width_ranks()));
        break;
      case OperatorKind::cross_entropy:
        // In its place the logits are read once, to choose a token.
        work.moved_elements.push_back(item.forward.elements);
        break;
    }
  }
  return work;
}

}  // namespace llmtrain
