// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>

#include "core/graph/operators/attention_operators.h"

namespace llmtrain {
namespace {

// The sizes of a rank's linear attention in one micro-batch.
struct LinearShape : LocalShape {
  bool is_mamba = false;
  double heads = 0;     // with a state each
  double key_size = 0;  // elements of a key of a head, and of a value
  double value_size = 0;
  double keys = 0;  // features of keys, as many as of queries, and of values
  double values = 0;
  double chunk = 0;   // tokens
  double chunks = 0;  // of all sequences
  double convolved() const { return 2 * keys + values; }
};

LinearShape linear_shape(const OperatorWriter& writer, const LinearAttentionRecipe& linear) {
  const auto ranks = static_cast<double>(writer.setting().shards.tensor);
  LinearShape shape{writer.shape()};
  shape.is_mamba = linear.kind == LinearAttentionKind::mamba2;
  shape.heads = static_cast<double>(linear.value_heads) / ranks;
  shape.key_size = static_cast<double>(linear.key_head_dim);
  shape.value_size = static_cast<double>(linear.value_head_dim);
  shape.keys = static_cast<double>(linear.key_features()) / ranks;
  shape.values = static_cast<double>(linear.value_features()) / ranks;
  shape.chunk = std::min(static_cast<double>(linear.chunk), shape.sequence_length);
  shape.chunks = shape.sequences * std::ceil(shape.sequence_length / shape.chunk);
  return shape;
}

void write_projections(OperatorWriter& writer, const LinearShape& shape) {
  const char* weight = "attention.projection.weight";
  const double gates = (shape.is_mamba ? 1 : 2) * shape.heads;
  const double columns = shape.convolved() + shape.values + (shape.is_mamba ? gates : 0);
  Operator& projection = writer.linear("attention.projection", {shape.tokens, columns, shape.hidden}, weight);
  writer.save_remade(projection, "attention.input", writer.input_bytes(weight) * shape.residual());
  writer.save(projection, "attention.projected",
              shape.element * shape.tokens * (columns - (shape.is_mamba ? gates : 0)));
  writer.enter_features(projection);
  if (!shape.is_mamba) writer.linear("attention.gates", {shape.tokens, gates, shape.hidden}, "attention.gates.weight");
}

// The convolution of each feature reads and writes it; its backward reads input and gradient and writes one. Mamba-2's
// backward convolves again in place of keeping the result (state-spaces/mamba, ssd_combined.py).
void write_convolution(OperatorWriter& writer, const LinearShape& shape, double width) {
  const double elements = shape.tokens * shape.convolved();
  Operator& convolution =
      writer.elementwise("attention.convolution", 2 * elements, (shape.is_mamba ? 5 : 3) * elements);
  convolution.flops = 2 * width * elements;
  convolution.backward_working = shape.element * elements;
  if (shape.is_mamba) convolution.forward_working = convolution.backward_working;
  if (!shape.is_mamba) writer.save(convolution, "attention.convolved", shape.element * elements);
}

// Products of chunks: within one all pairs of tokens, and with the states from chunk to chunk. Model FLOPs are those of
// the recurrence alone, which does not depend on the chunks: of each token and head the state is read for the output
// and written, with the delta rule read for the key as well: two or three products of its size.
//
// Mamba-2 (Dao and Gu, arXiv 2405.21060, section 6): scores, outputs of scores, states of chunks, outputs of states.
// Delta rule (Yang et al., arXiv 2412.06464, section 3.3): scores of keys with keys and with
// queries, the products of the triangular inverse with keys and with values, outputs of scores, and three products with
// states.
void write_chunks(OperatorWriter& writer, const LinearShape& shape) {
  const double batch = shape.chunks * shape.heads, rows = shape.chunk;
  const double rules = shape.is_mamba ? 1 : 2;
  const auto within = [&](const char* name, double columns, double inner, double products) {
    writer.add(name, OperatorKind::product).product = {rows, columns, inner, products * batch};
  };
  within("attention.chunk_scores", rows, shape.key_size, rules);
  if (!shape.is_mamba) within("attention.chunk_keys", shape.key_size, rows, 1);
  within("attention.chunk_values", shape.value_size, rows, rules);
  Operator& states = writer.add("attention.states", OperatorKind::product);
  states.product = {rows, shape.value_size, shape.key_size, (rules + 1) * batch};
  states.flops = 2 * (rules + 1) * shape.tokens * shape.heads * shape.key_size * shape.value_size;
  // States at the start of each chunk, and of the delta rule keys and values as the inverse leaves them; the backward
  // makes them again, beside as many gradients.
  const double per_token = shape.is_mamba ? 0 : shape.heads * (shape.key_size + 2 * shape.value_size);
  const double made = shape.element * (batch * shape.key_size * shape.value_size + shape.tokens * per_token);
  states.forward_working = made + shape.element * shape.tokens * shape.values;
  states.backward_working = 2 * made + shape.element * shape.tokens * (shape.convolved() + shape.values);
  // Decay, in fp32, and strength of each head; the delta rule's inverses of chunks.
  writer.save(states, "attention.decays", shape.tokens * shape.heads * (fp32_bytes + shape.element));
  if (!shape.is_mamba) writer.save(states, "attention.inverses", shape.element * shape.tokens * shape.heads * rows);
}

// A norm of what each head makes, of Mamba-2 of each group, times the gate: reads both and writes one.
void write_gated_norm(OperatorWriter& writer, const LinearShape& shape, double statistics) {
  const double elements = shape.tokens * shape.values;
  Operator& norm = writer.elementwise("attention.gated_norm", 3 * elements, 5 * elements);
  norm.backward_working = 2 * shape.element * elements;
  writer.save(norm, "attention.made", shape.element * elements);
  writer.save(norm, "attention.norm_statistics", fp32_bytes * shape.tokens * statistics);
}

}  // namespace

double write_linear_attention(OperatorWriter& writer, const LinearAttentionRecipe& linear) {
  const LinearShape shape = linear_shape(writer, linear);
  write_projections(writer, shape);
  write_convolution(writer, shape, static_cast<double>(linear.convolution));
  write_chunks(writer, shape);
  write_gated_norm(writer, shape, shape.is_mamba ? shape.keys / shape.key_size : shape.heads);
  return shape.values;
}

}  // namespace llmtrain
