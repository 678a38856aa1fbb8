// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "core/graph/operators/attention_operators.h"

namespace llmtrain {
namespace {

// A product that reads the layer's normed input.
Operator& write_input_product(OperatorWriter& writer, const std::string& name, double rows, double columns) {
  return writer.linear(name, {rows, columns, writer.shape().hidden}, name + ".weight");
}

// The norm of a latent vector of `width` elements, which follows a projection to `columns`, and the projection out of
// it to the rank's heads, to which the whole of these columns comes.
void write_latent(OperatorWriter& writer, const std::string& name, double width, double columns, double features) {
  const LocalShape& shape = writer.shape();
  const double rows = shape.split_tokens;
  Operator& norm = writer.elementwise(name + "_norm", 2 * rows * width, 3 * rows * width);
  norm.fused_pass = FusedPass::rms_norm;
  if (writer.is_cuda()) norm.backward_scratch = OperatorWriter::norm_scratch(NormKind::rmsnorm, rows, width);
  writer.save(norm, name + "_latent", shape.element * rows * columns);
  writer.save(norm, name + "_norm.statistics", OperatorWriter::statistics_bytes({.kind = NormKind::rmsnorm}, rows));
  const std::string weight = name + "_up.weight";
  Operator& up = writer.linear(name + "_up", {shape.tokens, features, width}, weight);
  writer.save_remade(up, name + "_normed", writer.input_bytes(weight) * rows * width);
  writer.enter_features(up, columns);
}

// Queries are rotated in place, as far as they have positions. Keys are put together of the part of each head and of
// the rotated part that all share, in the pass that takes them and the values apart.
void write_rotation(OperatorWriter& writer, const LatentAttentionRecipe& latent, const AttentionShape& shape) {
  const auto rope = static_cast<double>(latent.rope_head_dim), nope = static_cast<double>(latent.nope_head_dim);
  const double projected = shape.heads * (nope + shape.value_size) + rope;
  const double moved = shape.tokens * (2 * shape.heads * rope + projected + shape.key + shape.value);
  writer.elementwise("attention.rotation", moved, moved).fused_pass = FusedPass::rotation;
}

}  // namespace

void write_latent_projections(OperatorWriter& writer, const LayerSettings& layer, const AttentionShape& shape) {
  const LatentAttentionRecipe& latent = *layer.attention.latent;
  const auto rope = static_cast<double>(latent.rope_head_dim), nope = static_cast<double>(latent.nope_head_dim);
  const auto query_rank = static_cast<double>(latent.query_rank);
  const auto key_value_rank = static_cast<double>(latent.key_value_rank);
  const double rows = shape.split_tokens;
  // All that read it share one tensor.
  const auto keep_input = [&](Operator& first, const char* weight) {
    writer.save_remade(first, "attention.input", writer.input_bytes(weight) * shape.residual());
  };
  if (latent.query_rank > 0) {
    keep_input(write_input_product(writer, "attention.query_down", rows, query_rank), "attention.query_down.weight");
    write_latent(writer, "attention.query", query_rank, query_rank, shape.query);
  } else {
    Operator& query = write_input_product(writer, "attention.query", shape.tokens, shape.query);
    keep_input(query, "attention.query.weight");
    writer.enter_features(query);
  }
  write_input_product(writer, "attention.key_value_down", rows, key_value_rank + rope);
  write_latent(writer, "attention.key_value", key_value_rank, key_value_rank + rope,
               shape.heads * (nope + shape.value_size));
  write_rotation(writer, latent, shape);
}

}  // namespace llmtrain
