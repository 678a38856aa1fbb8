// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/attention_operators.h"

#include <algorithm>
#include <cmath>

namespace llmtrain {
namespace {

// Query, key and value as the attention core reads them.
void save_inputs(const OperatorWriter& writer, const AttentionShape& shape, Operator& core) {
  // core/model keeps the projection's output and reads query, key and value as views of it.
  if (writer.is_own()) {
    writer.save(core, "attention.query_key_value",
                shape.element * shape.tokens * (shape.query + shape.key + shape.value));
    return;
  }
  writer.save(core, "attention.query", shape.element * shape.tokens * shape.query);
  writer.save(core, "attention.key", shape.element * shape.tokens * shape.key);
  writer.save(core, "attention.value", shape.element * shape.tokens * shape.value);
}

// `drops`: here and below, whether probabilities have dropout.
void save_core(const OperatorWriter& writer, const AttentionShape& shape, bool drops, Operator& core) {
  if (core.kind == OperatorKind::fused_attention) {
    // One number per row replaces the S scores of it: the backward recomputes the probabilities from it.
    writer.save(core, "attention.log_sum_exp", fp32_bytes * shape.tokens * shape.heads);
    // Otherwise the output projection's kept input is the same tensor; at FP8 levels other programs keep that as FP8
    // only.
    if (writer.takes_fp8("attention.output.weight") && !writer.is_own())
      writer.save(core, "attention.flash_output", shape.element * shape.tokens * shape.output);
    return;
  }
  // s² per head: what selective recompute exists to drop (arXiv 2205.05198, section 5).
  writer.save(core, "attention.probabilities", shape.element * shape.scores, Recompute::none);
  // core/model generates masks again from their key, so it keeps neither mask nor dropped copy.
  if (!drops || writer.is_own()) return;
  writer.save(core, "attention.mask", dropout_mask_bytes * shape.scores, Recompute::none);
  writer.save(core, "attention.dropped", shape.element * shape.scores, Recompute::none);
}

// Context ranks gather the keys and values of whole sequences before attention, and again before its backward, whose
// gradients are reduced and scattered to the ranks that own the tokens. Where selective recompute repeats the core, the
// gather of the backward serves both.
void exchange_keys(const OperatorWriter& writer, Operator& core, double bytes) {
  const auto add = [&](Collective collective, Direction direction, const char* tensors) {
    writer.exchange(core, RankAxis::context, collective, direction, tensors, bytes);
  };
  add(Collective::all_gather, Direction::forward, "keys and values");
  add(Collective::all_gather, Direction::backward, "keys and values");
  add(Collective::reduce_scatter, Direction::backward, "gradients of keys and values");
}

// Scores of the math path while they are computed, and the gradients of probabilities and scores. core/model's
// softmax works in fp32 and rounds its result.
void add_scores_work(const OperatorWriter& writer, const AttentionShape& shape, double key_gradients, Operator& core) {
  const bool is_stored = core.kind == OperatorKind::stored_attention;
  const double in_fp32 = fp32_bytes * shape.scores * (shape.element < fp32_bytes ? 2 : 1);
  if (is_stored) core.forward_working += writer.is_own() ? in_fp32 : shape.element * shape.scores;
  core.backward_working += std::max(key_gradients, is_stored ? 2 * shape.element * shape.scores : 0);
}

// The CPU attends to fp16 in fp32: beside the core are its operands and results in fp32, and the probabilities of the
// math path.
void hold_fp32_copies(const AttentionShape& shape, double keys_and_values, Operator& core) {
  const bool is_stored = core.kind == OperatorKind::stored_attention;
  core.forward_working += fp32_bytes * (shape.tokens * (shape.query + shape.output) + keys_and_values);
  core.backward_working += fp32_bytes * (2 * shape.tokens * (shape.query + shape.output) + 2 * keys_and_values);
  if (is_stored) core.backward_working += (3 * fp32_bytes - 2 * shape.element) * shape.scores;
}

// What LibTorch's kernels take beside results on a GPU (kernels/attention/cuda_attention_calls.cpp). FlashAttention
// sums the gradients of queries in fp32, in as many parts as there are multiprocessors for each head, so that the order
// of the sums is fixed, and makes the gradients of keys and values per query head. cuDNN's has one such part. CUTLASS's
// kernel reads keys and values per query head, too. `keys`: of how many tokens the kernel gets keys.
void hold_kernel_memory(const AttentionShape& shape, AttentionKernel kernel, double keys, Operator& core) {
  constexpr double multiprocessors = 132, row_block = 128;  // an H100's; other GPUs have fewer
  const double per_head = shape.element * keys * shape.query, copies = shape.kv_heads < shape.heads ? 2 : 0;
  if (shape.element == fp32_bytes) {
    core.forward_scratch = copies * per_head;
    core.backward_scratch = 2 * copies * per_head + fp32_bytes * shape.tokens * shape.heads;
    return;
  }
  if (kernel == AttentionKernel::cudnn) {
    core.backward_scratch = fp32_bytes * shape.tokens * (shape.query + shape.heads) + copies * per_head;
    return;
  }
  const double head = std::ceil(shape.head_dim / 32) * 32, heads = shape.sequences * shape.heads;
  const double rows = shape.sequences * std::ceil(shape.tokens / shape.sequences / row_block) * row_block;
  const double sums = std::ceil(multiprocessors / heads) * rows * shape.heads * head;
  core.backward_scratch = fp32_bytes * (sums + rows * shape.heads) + copies * per_head;
}

// All that attention takes beside results on a GPU. Of documents of whose queries a context rank has a part, keys and
// values are copied for one call of the kernel, and so are gradients (kernels/attention/document_pieces.h): at most
// those of a document that is a whole sequence, whose two pieces end with the rank's early and with its late chunk.
void hold_scratch(const OperatorWriter& writer, const AttentionShape& shape, Operator& core) {
  const PassSetting& setting = writer.setting();
  const bool has_pieces = setting.tokens.context > 1 && setting.tokens.has_documents;
  const double keys = shape.tokens * (has_pieces ? static_cast<double>(setting.tokens.context) + 0.5 : 1);
  hold_kernel_memory(shape, setting.program.attention, keys, core);
  if (!has_pieces) return;
  const double copies = shape.element * keys * (shape.key + shape.value);
  core.forward_scratch += copies;
  core.backward_scratch += 2 * copies;
}

// The backward holds the gradients of the core's output and of its three inputs; gathered keys are held beside their
// gradients, and these beside the copy that is sent.
void write_core(OperatorWriter& writer, const AttentionSettings& attention, const AttentionShape& shape) {
  const bool is_fused = attention_method(attention, writer.setting().program.attention) == AttentionMethod::flash;
  const bool drops = attention.dropout > 0;
  Operator& core =
      writer.add("attention.core", is_fused ? OperatorKind::fused_attention : OperatorKind::stored_attention);
  const double context = static_cast<double>(writer.setting().tokens.context);
  // The product that makes the scores; context ranks have a part of the queries but all keys.
  core.product = {shape.sequence_length / context, shape.sequence_length, shape.head_dim,
                  shape.sequences * shape.heads};
  core.heads_per_key = shape.heads / shape.kv_heads;
  if (shape.value_size != shape.head_dim) core.value_size = shape.value_size;
  // QKᵀ and PV: a multiply-add per key for each element of queries and of what they make. The causal half is counted as
  // well, as papers do.
  core.flops = 2 * shape.tokens * shape.sequence_length * (shape.query + shape.output);
  // Where queries see the latest keys alone, the scores that exist are counted by the same measure. Attention that
  // stores scores makes all of them.
  if (attention.window) {
    core.window = static_cast<double>(*attention.window);
    core.flops *= window_share(shape.sequence_length, core.window);
  }
  // Fused attention keeps no scores, so computing it again would save nothing.
  if (!is_fused) core.repetition = Operator::Repetition::selective_and_full;
  if (!is_fused && drops) core.forward = core.backward = {2 * shape.scores, writer.mask_bytes(shape.scores)};
  save_inputs(writer, shape, core);
  save_core(writer, shape, drops, core);
  const double keys = shape.element * shape.tokens * (shape.key + shape.value);
  core.backward_working = shape.element * shape.tokens * (shape.query + shape.output + shape.key + shape.value);
  if (context > 1) {
    exchange_keys(writer, core, context * keys);
    core.received += context * keys;
    core.forward_working += context * keys;
    core.backward_working += 2 * context * keys;
  }
  add_scores_work(writer, shape, context > 1 ? 0 : keys, core);
  if (is_fused && writer.is_cuda()) hold_scratch(writer, shape, core);
  if (writer.widens_fp16()) hold_fp32_copies(shape, context * shape.tokens * (shape.key + shape.value), core);
}

// One norm over the features of each head of queries and keys.
void write_query_key_norm(OperatorWriter& writer, const AttentionShape& shape, double elements) {
  Operator& norm = writer.elementwise("attention.query_key_norm", 2 * elements, 3 * elements);
  norm.fused_pass = FusedPass::rms_norm;
  // Beside the sums, a GPU's backward holds the queries, their gradient and the gradient at the norm's input.
  if (writer.is_cuda())
    norm.backward_scratch = 3 * shape.element * shape.tokens * shape.query +
                            OperatorWriter::norm_scratch(NormKind::rmsnorm, shape.tokens * shape.heads, shape.head_dim);
  // The core keeps one side of the norms, core/model their input and other programs their output; this is the other
  // side.
  const char* kept = writer.is_own() ? "attention.normed_query_key" : "attention.unnormed_query_key";
  writer.save(norm, kept, shape.element * elements);
  writer.save(norm, "attention.norm_statistics", fp32_bytes * shape.tokens * (shape.heads + shape.kv_heads));
}

void write_projections(OperatorWriter& writer, const AttentionSettings& attention, const AttentionShape& shape) {
  // One product for query, key and value.
  const char* weight = "attention.query.weight";
  const double columns = shape.query + shape.key + shape.value + (attention.has_gate ? shape.output : 0);
  Operator& inputs = writer.linear("attention.query_key_value", {shape.tokens, columns, shape.hidden}, weight);
  writer.save_remade(inputs, "attention.input", writer.input_bytes(weight) * shape.residual());
  writer.enter_features(inputs);
  // Queries and keys are rotated in place: one read and one write of each element; values are not.
  const double normed = shape.tokens * (shape.query + shape.key);
  if (attention.head_norm_epsilon) write_query_key_norm(writer, shape, normed);
  if (!attention.rope) return;
  const double rotated = normed * static_cast<double>(attention.rope->head_dim) / shape.head_dim;
  writer.elementwise("attention.rotation", 2 * rotated, 2 * rotated).fused_pass = FusedPass::rotation;
}

// The output times the sigmoid of the gate. Both are kept, and so is their product, by the output's projection.
void write_gate(OperatorWriter& writer, const AttentionShape& shape) {
  const double elements = shape.tokens * shape.output;
  Operator& gate = writer.elementwise("attention.gate", 3 * elements, 5 * elements);
  gate.backward_working = 2 * shape.element * elements;
  writer.save(gate, "attention.gate", shape.element * elements);
  writer.save(gate, "attention.ungated", shape.element * elements);
}

// What the heads make on this rank, in features.
double write_heads(OperatorWriter& writer, const LayerSettings& layer) {
  const AttentionSettings& attention = layer.attention;
  if (layer.linear_attention) return write_linear_attention(writer, *layer.linear_attention);
  const AttentionShape shape = attention_shape(writer, attention);
  attention.latent ? write_latent_projections(writer, layer, shape) : write_projections(writer, attention, shape);
  write_core(writer, attention, shape);
  if (attention.has_gate) write_gate(writer, shape);
  return shape.output;
}

}  // namespace

double window_share(double sequence_length, double window) {
  const double hidden = 1 - std::min(1.0, window / sequence_length);
  return 1 - hidden * hidden;
}

AttentionShape attention_shape(const OperatorWriter& writer, const AttentionSettings& attention) {
  const std::int64_t ranks = writer.setting().shards.tensor;
  const std::int64_t value_size = attention.latent ? attention.latent->value_head_dim : attention.head_dim;
  AttentionShape shape{writer.shape()};
  shape.head_dim = static_cast<double>(attention.head_dim);
  shape.value_size = static_cast<double>(value_size);
  shape.heads = static_cast<double>(attention.heads) / static_cast<double>(ranks);
  shape.kv_heads = static_cast<double>(local_units({Split::Kind::repeated, 0, attention.kv_heads}, ranks));
  shape.query = shape.heads * shape.head_dim;
  shape.key = shape.kv_heads * shape.head_dim;
  shape.value = shape.kv_heads * shape.value_size;
  shape.output = shape.heads * shape.value_size;
  // A context rank has a part of the queries and all keys.
  shape.scores = shape.heads * shape.tokens * shape.sequence_length;
  return shape;
}

// Its input is kept, which nothing else reads.
void write_post_norm(OperatorWriter& writer, const LayerSettings& layer, const std::string& half) {
  Operator& norm = writer.norm(half + ".post_norm", layer.norm);
  writer.save(norm, half + ".branch", writer.shape().element * writer.shape().residual());
  if (writer.is_own())
    writer.save(norm, half + ".post_norm.statistics",
                OperatorWriter::statistics_bytes(layer.norm, writer.shape().split_tokens));
}

void write_attention(OperatorWriter& writer, const LayerSettings& layer) {
  const LocalShape& shape = writer.shape();
  Operator& norm = writer.norm("attention.norm", layer.norm);
  // All that full recompute keeps of a layer: 2sbh bytes in 16 bits.
  if (!layer.predicts) writer.save_input(norm);
  if (layer.predicts) writer.save(norm, "prediction.projected", shape.element * shape.residual());
  if (writer.is_own())
    writer.save(norm, "attention_norm.statistics", OperatorWriter::statistics_bytes(layer.norm, shape.split_tokens));

  const double features = write_heads(writer, layer);
  Operator& output =
      writer.linear("attention.output", {shape.tokens, shape.hidden, features}, "attention.output.weight");
  // The weight's gradient of the output projection needs its input. core/model casts it to FP8 again.
  const double kept = writer.is_own() ? shape.element : writer.input_bytes("attention.output.weight");
  writer.save(output, "attention.output", kept * shape.tokens * features);
  // What tensor ranks made in both halves is added up at once where these read the same input (GPT-NeoX).
  if (layer.parallel == ParallelResidual::none) writer.leave_features(output);
  if (layer.has_post_norms) write_post_norm(writer, layer, "attention");
  Operator& residual = writer.residual("attention.residual", layer.dropout);
  // The gradient of the next half is alive together with that of the output.
  residual.backward_working += shape.element * shape.residual();
  if (!layer.has_feed_forward) residual.forward_working = shape.element * shape.residual();
  if (layer.dropout > 0 && !writer.is_own())
    writer.save(residual, "attention.residual_mask", dropout_mask_bytes * shape.residual());
}

}  // namespace llmtrain
