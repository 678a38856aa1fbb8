// SPDX-License-Identifier: Apache-2.0
#include "core/graph/saved_tensors.h"

#include "core/graph/local_shape.h"

namespace llmtrain {

namespace {

constexpr double fp32_bytes = 4;

std::vector<SavedTensor> embedding_rows(const ModelRecipe& model, const LocalShape& shape, const PassSetting& setting) {
  if (setting.kernels == KernelSet::cpu || model.dropout == 0) return {};
  return {{"mask", shape.split_tokens * shape.hidden, Recompute::full}};
}

std::vector<SavedTensor> head_rows(const ModelRecipe& model, const LocalShape& shape, const PassSetting& setting) {
  const double residual = shape.element * shape.split_tokens * shape.hidden;
  if (setting.kernels == KernelSet::cuda) {
    return {{"input", residual, Recompute::full},
            {"normed", residual, Recompute::full},
            {"logits", fp32_bytes * shape.tokens * shape.vocabulary, Recompute::full}};
  }
  const double statistics = fp32_bytes * shape.split_tokens * (model.norm == NormKind::layernorm ? 2 : 1);
  return {{"input", residual, Recompute::full},
          {"statistics", statistics, Recompute::full},
          {"normed_gradient", residual, Recompute::full}};
}

}  // namespace

AttentionMethod attention_method(const ModelRecipe& model, AttentionKernel kernel) {
  const bool is_math = kernel == AttentionKernel::math || model.dropout > 0;
  return is_math ? AttentionMethod::math : AttentionMethod::flash;
}

std::vector<SavedTensor> saved_tensors(const Graph& graph, std::size_t block, const PassSetting& setting) {
  if (graph.blocks.at(block).kind == BlockKind::layer) {
    LayerRows rows = layer_rows(graph, block, setting);
    rows.attention.insert(rows.attention.end(), rows.feed_forward.begin(), rows.feed_forward.end());
    return rows.attention;
  }
  const LocalShape shape = local_shape(graph, block, setting);
  return graph.blocks[block].kind == BlockKind::embedding ? embedding_rows(graph.model, shape, setting)
                                                          : head_rows(graph.model, shape, setting);
}

double saved_bytes(const Graph& graph, std::size_t block, const PassSetting& setting) {
  return kept_bytes(saved_tensors(graph, block, setting), setting.recompute);
}

double boundary_bytes(const ModelRecipe& model, const PassSetting& setting) {
  const auto tokens = static_cast<double>(setting.batch * setting.sequence_length) /
                      static_cast<double>(setting.context * (setting.splits_sequence ? setting.shards.tensor : 1));
  return (setting.compute == DataType::fp32 ? 4 : 2) * tokens * static_cast<double>(model.hidden_size);
}

}  // namespace llmtrain
