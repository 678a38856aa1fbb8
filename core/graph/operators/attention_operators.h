// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operators/operator_writer.h"

namespace llmtrain {

// The sizes of a rank's attention in one micro-batch, in elements.
struct AttentionShape : LocalShape {
  double head_dim = 0;    // of a query and of a key
  double value_size = 0;  // of a value
  double heads = 0;
  double kv_heads = 0;
  double query = 0;   // features of the rank's query heads
  double key = 0;     // features of its key heads …
  double value = 0;   // … and of its value heads
  double output = 0;  // features of what its heads make
  double scores = 0;
};

AttentionShape attention_shape(const OperatorWriter& writer, const AttentionSettings& attention);

// What makes queries, keys and values of the layer's input. With latent attention tensor ranks have a part of the
// heads, and all of what leads to the latent vectors, of their rows: as Megatron-Core has it, so that latent vectors
// are exchanged in place of rows of the whole width.
void write_latent_projections(OperatorWriter& writer, const LayerSettings& layer, const AttentionShape& shape);

// Linear attention up to the output's projection: its projections, the convolution, the rule and the gated norm.
// Returns how many features its heads make on this rank.
double write_linear_attention(OperatorWriter& writer, const LinearAttentionRecipe& linear);

}  // namespace llmtrain
