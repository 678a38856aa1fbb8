// SPDX-License-Identifier: Apache-2.0
#include "core/graph/blocks/linear_attention.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace llmtrain {
namespace {

// Numbers of each value head, or of each feature that is convolved.
void add_vector(GraphWriter& writer, std::string name, std::vector<std::int64_t> shape, std::int64_t key_heads,
                Initialization initialization) {
  writer.add({.local_name = std::move(name),
              .shape = std::move(shape),
              .split = even_outputs(key_heads),
              .initialization = initialization});
}

// One weight for all heads, of which each rank has some; Mamba-2's has one of its own for each feature.
void add_output_norm(GraphWriter& writer, const LinearAttentionRecipe& linear) {
  const bool is_mamba = linear.kind == LinearAttentionKind::mamba2;
  if (is_mamba)
    return add_vector(writer, "attention.norm.weight", {linear.value_features()}, linear.key_heads,
                      Initialization::ones);
  writer.add({.local_name = "attention.norm.weight",
              .shape = {linear.value_head_dim},
              .sums_over_ranks = true,
              .initialization = Initialization::ones});
}

}  // namespace

void add_linear_attention(GraphWriter& writer, const LinearAttentionRecipe& linear) {
  const std::int64_t hidden = writer.model().hidden_size, heads = linear.value_heads;
  const std::int64_t keys = linear.key_features(), values = linear.value_features();
  const std::int64_t convolved = 2 * keys + values, groups = linear.key_heads;
  const bool is_mamba = linear.kind == LinearAttentionKind::mamba2, has_bias = writer.model().bias;
  // Queries, keys, values and the gate of what heads make; Mamba-2's steps are of the same product, the delta rule's
  // decay and strength of each head of one of their own.
  const std::int64_t projected = convolved + values + (is_mamba ? heads : 0);
  writer.add_matrix({"attention.projection", projected, hidden, even_outputs(groups)});
  if (has_bias) writer.add_bias({"attention.projection", projected, 0, even_outputs(groups)});
  if (!is_mamba) writer.add_matrix({"attention.gates", 2 * heads, hidden, even_outputs(groups)});
  add_vector(writer, "attention.convolution.weight", {convolved, linear.convolution}, groups, Initialization::normal);
  if (linear.convolution_bias)
    add_vector(writer, "attention.convolution.bias", {convolved}, groups, Initialization::zeros);
  add_vector(writer, "attention.step_bias", {heads}, groups, Initialization::ones);
  add_vector(writer, "attention.log_decay", {heads}, groups, Initialization::zeros);
  if (is_mamba) add_vector(writer, "attention.skip", {heads}, groups, Initialization::ones);
  add_output_norm(writer, linear);
  writer.add_last_matrix({"attention.output", hidden, values, even_inputs(groups)});
  if (has_bias) writer.add_bias({"attention.output", hidden});
}

}  // namespace llmtrain
