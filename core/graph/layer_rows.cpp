// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/graph/local_shape.h"

namespace llmtrain {

namespace {

constexpr double mask_bytes = 1;
constexpr double statistic_bytes = 4;
constexpr double index_bytes = 8;

// Collects rows; those that a model does not have come with no bytes.
class Rows {
 public:
  void add(const char* name, double bytes, Recompute kept_through = Recompute::selective) {
    if (bytes > 0) rows_.push_back({name, bytes, kept_through});
  }
  std::vector<SavedTensor> take() { return std::move(rows_); }

 private:
  std::vector<SavedTensor> rows_;
};

double norm_statistics(const ModelRecipe& model, double rows) {
  return statistic_bytes * rows * (model.norm == NormKind::layernorm ? 2 : 1);
}

// Routing and the experts' own tensors. `input` is what the kept inputs of their products take an element.
void add_expert_rows(const ModelRecipe& model, const LocalShape& shape, double input, Rows& rows) {
  if (shape.experts == 0) return;
  rows.add("experts.probabilities", statistic_bytes * shape.split_tokens * shape.experts);
  rows.add("experts.choices", (index_bytes + statistic_bytes) * shape.split_tokens * shape.top_k);
  rows.add("experts.input", input * shape.expert_rows * shape.hidden);
  rows.add("experts.hidden", shape.element * shape.expert_rows * shape.expert_inner * activation_inputs(model));
  rows.add("experts.activated", input * shape.expert_rows * shape.expert_inner);
  // The gradient of a token's scores needs what each expert answered.
  rows.add("experts.output", shape.element * shape.expert_rows * shape.hidden);
}

void add_cuda_core(const LocalShape& shape, const PassSetting& setting, double dropout, Rows& rows) {
  if (setting.attention == AttentionMethod::flash) {
    rows.add("attention.log_sum_exp", statistic_bytes * shape.tokens * shape.heads);
    if (setting.fp8_level != Fp8Level::off)
      rows.add("attention.flash_output", shape.element * shape.tokens * shape.query);
    return;
  }
  rows.add("attention.probabilities", shape.element * shape.scores, Recompute::none);
  if (dropout == 0) return;
  rows.add("attention.mask", mask_bytes * shape.scores, Recompute::none);
  rows.add("attention.dropped", shape.element * shape.scores, Recompute::none);
}

// What the CPU's modules make again under selective recompute.
constexpr Recompute made_again = Recompute::none;

}  // namespace

LayerRows cuda_layer_rows(const ModelRecipe& model, const LocalShape& shape, const PassSetting& setting) {
  const double residual = shape.split_tokens * shape.hidden;
  const double mask = model.dropout > 0 ? mask_bytes * residual : 0;
  Rows attention;
  attention.add("input", shape.element * residual, Recompute::full);
  attention.add("attention.input", shape.gemm_input * residual);
  if (model.qk_norm) {
    attention.add("attention.unnormed_query_key", shape.element * shape.tokens * (shape.query + shape.key));
    attention.add("attention.norm_statistics", statistic_bytes * shape.tokens * (shape.heads + shape.kv_heads));
  }
  attention.add("attention.query", shape.element * shape.tokens * shape.query);
  attention.add("attention.key", shape.element * shape.tokens * shape.key);
  attention.add("attention.value", shape.element * shape.tokens * shape.key);
  add_cuda_core(shape, setting, model.dropout, attention);
  attention.add("attention.output", shape.gemm_input * shape.tokens * shape.query);
  attention.add("attention.residual_mask", mask);

  Rows feed_forward;
  feed_forward.add("middle", shape.element * residual);
  feed_forward.add("ffn.input", shape.gemm_input * residual);
  feed_forward.add("ffn.hidden", shape.element * shape.tokens * shape.inner * activation_inputs(model));
  feed_forward.add("ffn.activated", shape.gemm_input * shape.tokens * shape.inner);
  add_expert_rows(model, shape, shape.gemm_input, feed_forward);
  feed_forward.add("ffn.residual_mask", mask);
  return {attention.take(), feed_forward.take()};
}

LayerRows cpu_layer_rows(const ModelRecipe& model, const LocalShape& shape, const PassSetting& setting) {
  const double residual = shape.element * shape.split_tokens * shape.hidden;
  Rows attention;
  attention.add("input", residual, Recompute::full);
  attention.add("attention.input", residual, made_again);
  attention.add("attention_norm.statistics", norm_statistics(model, shape.split_tokens));
  attention.add("attention.query_key_value", shape.element * shape.tokens * (shape.query + 2 * shape.key));
  if (model.qk_norm) {
    attention.add("attention.normed_query_key", shape.element * shape.tokens * (shape.query + shape.key));
    attention.add("attention.norm_statistics", statistic_bytes * shape.tokens * (shape.heads + shape.kv_heads));
  }
  attention.add("attention.output", shape.element * shape.tokens * shape.query);
  if (setting.attention == AttentionMethod::flash)
    attention.add("attention.log_sum_exp", statistic_bytes * shape.tokens * shape.heads);
  else
    attention.add("attention.probabilities", shape.element * shape.scores, made_again);

  Rows feed_forward;
  feed_forward.add("middle", residual);
  feed_forward.add("ffn.input", residual, made_again);
  feed_forward.add("ffn_norm.statistics", norm_statistics(model, shape.split_tokens));
  feed_forward.add("ffn.hidden", shape.element * shape.tokens * shape.inner * activation_inputs(model));
  feed_forward.add("ffn.activated", shape.element * shape.tokens * shape.inner, made_again);
  add_expert_rows(model, shape, shape.element, feed_forward);
  return {attention.take(), feed_forward.take()};
}

LayerRows layer_rows(const Graph& graph, std::size_t block, const PassSetting& setting) {
  const LocalShape shape = local_shape(graph, block, setting);
  return setting.kernels == KernelSet::cuda ? cuda_layer_rows(graph.model, shape, setting)
                                            : cpu_layer_rows(graph.model, shape, setting);
}

}  // namespace llmtrain
