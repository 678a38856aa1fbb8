// SPDX-License-Identifier: Apache-2.0
#include "core/graph/local_shape.h"

#include "core/graph/experts.h"

namespace llmtrain {

namespace {

double element_bytes(DataType type) { return type == DataType::fp32 ? 4 : 2; }

// One byte in the order of the forward's product and one in the order of the weight gradient's.
constexpr double fp8_input_bytes = 2;

double part(std::int64_t whole, std::int64_t parts) { return static_cast<double>(whole) / static_cast<double>(parts); }

void add_expert_sizes(const MixtureOfExpertsRecipe& moe, const PassSetting& setting, LocalShape& shape) {
  const ShardDegrees& shards = setting.shards;
  // Each rank routes tokens / tensor of them, so that none is sent twice, and the ranks of an expert gather theirs.
  const auto routed = static_cast<std::int64_t>(shape.tokens) * shards.expert_tensor / shards.tensor;
  shape.expert_rows = static_cast<double>(moe.experts * expert_capacity(moe, routed));
  shape.expert_inner = part(moe.ffn_hidden_size, shards.expert_tensor);
  shape.experts = static_cast<double>(moe.experts);
  shape.top_k = static_cast<double>(moe.top_k);
}

}  // namespace

LocalShape local_shape(const Graph& graph, std::size_t block, const PassSetting& setting) {
  const ModelRecipe& model = graph.model;
  const std::int64_t tensor = setting.shards.tensor;
  LocalShape shape;
  shape.tokens = part(setting.batch * setting.sequence_length, setting.context);
  shape.split_tokens = shape.tokens / static_cast<double>(setting.splits_sequence ? tensor : 1);
  shape.hidden = static_cast<double>(model.hidden_size);
  shape.heads = part(model.heads, tensor);
  shape.kv_heads = static_cast<double>(local_kv_heads(model, tensor));
  shape.query = shape.heads * static_cast<double>(model.head_dim);
  shape.key = shape.kv_heads * static_cast<double>(model.head_dim);
  shape.scores = shape.heads * shape.tokens * static_cast<double>(setting.sequence_length);
  shape.vocabulary = static_cast<double>(local_vocabulary(model, tensor));
  shape.element = element_bytes(setting.compute);
  shape.gemm_input = setting.fp8_level == Fp8Level::off ? shape.element : fp8_input_bytes;
  shape.inner = part(model.ffn_hidden_size, tensor);
  if (has_experts(model, graph.blocks.at(block).layer)) {
    shape.inner = part(model.moe->shared_experts * model.moe->ffn_hidden_size, tensor);
    add_expert_sizes(*model.moe, setting, shape);
  }
  return shape;
}

double activation_inputs(const ModelRecipe& model) { return model.activation == Activation::swiglu ? 2 : 1; }

double sum_bytes(const std::vector<SavedTensor>& rows) { return kept_bytes(rows, Recompute::none); }

double kept_bytes(const std::vector<SavedTensor>& rows, Recompute recompute) {
  double bytes = 0;
  for (const SavedTensor& row : rows)
    if (row.kept_through >= recompute) bytes += row.bytes;
  return bytes;
}

}  // namespace llmtrain
