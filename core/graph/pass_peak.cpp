// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/local_shape.h"
#include "core/graph/saved_tensors.h"

namespace llmtrain {

namespace {

constexpr double fp32_bytes = 4;

// Logits that the CPU's head holds at a time (core/model/head_block.cpp).
constexpr double logits_chunk_bytes = 128 << 20;

// Bytes that the operators of a layer hold for a moment, beside the tensors of the table.
struct LayerWork {
  double residual = 0;           // a tensor as wide as the layer's output
  double query_key_value = 0;    // the gradients of the three
  double query = 0;              // the gradient of attention's output
  double forward_scores = 0;     // of the math path
  double backward_scores = 0;    // of the math path
  double hidden = 0;             // the gradient of the activation's input
  double gathered = 0;           // full inputs that sequence parallelism brings together
  double gathered_keys = 0;      // keys and values of whole sequences, which context ranks bring together
  double key_gradients = 0;      // of this rank's, behind the gradient of its queries
  double dropped_residual = 0;   // the gradient behind a residual's dropout
  double weight_gradient = 0;    // 16-bit, before it becomes FP8
  double exchanged_experts = 0;  // rows on their way to the experts or back
};

double largest_weight(const Graph& graph, std::size_t block, const PassSetting& setting) {
  std::int64_t largest = 0;
  for (const std::size_t index : graph.blocks[block].parameters)
    largest = std::max(largest, local_elements(graph.model, graph.parameters[index], setting.shards));
  return static_cast<double>(largest);
}

LayerWork layer_work(const Graph& graph, std::size_t block, const PassSetting& setting) {
  const LocalShape shape = local_shape(graph, block, setting);
  const double element = shape.element, widening = activation_inputs(graph.model);
  const bool is_math = setting.attention == AttentionMethod::math, is_cpu = setting.kernels == KernelSet::cpu;
  LayerWork work;
  work.residual = element * shape.split_tokens * shape.hidden;
  work.query_key_value = element * shape.tokens * (shape.query + 2 * shape.key);
  work.query = element * shape.tokens * shape.query;
  // The CPU's softmax works in fp32 and rounds at its end.
  const double scores_in_fp32 = fp32_bytes * shape.scores * (element < fp32_bytes ? 2 : 1);
  if (is_math) work.forward_scores = is_cpu ? scores_in_fp32 : element * shape.scores;
  if (is_math) work.backward_scores = 2 * element * shape.scores;
  work.hidden = element * widening * (shape.tokens * shape.inner + shape.expert_rows * shape.expert_inner);
  if (setting.splits_sequence) work.gathered = 2 * element * shape.tokens * shape.hidden;
  if (setting.context > 1) {
    work.gathered_keys = element * static_cast<double>(setting.context) * shape.tokens * 2 * shape.key;
  } else {
    work.key_gradients = element * shape.tokens * 2 * shape.key;
  }
  if (graph.model.dropout > 0) work.dropped_residual = work.residual;
  if (setting.fp8_level != Fp8Level::off) work.weight_gradient = element * largest_weight(graph, block, setting);
  work.exchanged_experts = 2 * element * shape.expert_rows * shape.hidden;
  return work;
}

PassPeak layer_peak(const Graph& graph, std::size_t block, const PassSetting& setting) {
  const LayerRows rows = layer_rows(graph, block, setting);
  const LayerWork work = layer_work(graph, block, setting);
  const double attention = sum_bytes(rows.attention), feed_forward = sum_bytes(rows.feed_forward);
  const bool repeats_layer = setting.recompute == Recompute::full;
  // Selective recompute lets go of the scores before the feed-forward half begins, and makes them again after it.
  const double attention_behind = repeats_layer ? attention : kept_bytes(rows.attention, setting.recompute);

  PassPeak peak;
  peak.forward = std::max(attention + work.forward_scores + work.gathered_keys,
                          attention_behind + feed_forward + work.residual + work.exchanged_experts) +
                 work.gathered / 2;
  const double gradients = work.residual + work.dropped_residual + work.gathered + work.weight_gradient;
  const double in_feed_forward = attention_behind + feed_forward + work.hidden + work.exchanged_experts + gradients;
  // Behind it stands the feed-forward half's gradient; the output's memory is free once its gradient is known. Gathered
  // keys stand beside their gradients, and these beside the copy that is sent.
  const double in_attention = attention + work.residual + gradients + work.query + work.query_key_value +
                              2 * work.gathered_keys + std::max(work.key_gradients, work.backward_scores);
  const double repeating = repeats_layer ? attention + feed_forward + 2 * work.residual : 0;
  peak.backward = std::max({in_feed_forward, in_attention, repeating});
  return peak;
}

double cpu_head_work(const LocalShape& shape) {
  const double most = std::max(1.0, std::floor(logits_chunk_bytes / (shape.vocabulary * shape.element)));
  const double chunks = std::ceil(shape.tokens / most);
  const double rows = std::ceil(shape.tokens / chunks);
  const double normed = shape.element * shape.split_tokens * shape.hidden;
  return normed + fp32_bytes * shape.tokens + shape.element * rows * (shape.vocabulary + shape.hidden);
}

PassPeak head_peak(const Graph& graph, std::size_t block, const PassSetting& setting) {
  const LocalShape shape = local_shape(graph, block, setting);
  const double saved = saved_bytes(graph, block, setting), input_gradient = boundary_bytes(graph.model, setting);
  if (setting.kernels == KernelSet::cpu) return {saved + cpu_head_work(shape), saved + input_gradient};
  // The product's own result where it is not fp32, and the shifted copy of which the softmax is taken.
  const double logits = shape.tokens * shape.vocabulary;
  const double unwidened = shape.element < fp32_bytes ? shape.element * logits : 0;
  return {saved + unwidened + fp32_bytes * logits, saved + unwidened + input_gradient};
}

}  // namespace

PassPeak pass_peak(const Graph& graph, std::size_t block, const PassSetting& setting) {
  const double boundary = boundary_bytes(graph.model, setting);
  switch (graph.blocks.at(block).kind) {
    case BlockKind::embedding:
      return {saved_bytes(graph, block, setting) + boundary, saved_bytes(graph, block, setting) + boundary};
    case BlockKind::layer:
      return layer_peak(graph, block, setting);
    case BlockKind::head:
      return head_peak(graph, block, setting);
  }
  return {};
}

}  // namespace llmtrain
