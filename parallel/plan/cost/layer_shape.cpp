// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/layer_shape.h"

#include <algorithm>
#include <cmath>

namespace llmtrain {
namespace {

// "auto" takes the fused kernel where it can: not with dropout in attention (design.md §8).
bool takes_fused_attention(const Recipe& recipe) {
  if (recipe.kernels.attention == AttentionKernel::automatic) return recipe.model.dropout == 0;
  return recipe.kernels.attention == AttentionKernel::flash;
}

}  // namespace

LayerShape make_layer_shape(const Recipe& recipe, const Mesh& mesh) {
  const ModelRecipe& model = recipe.model;
  const auto tensor = static_cast<double>(mesh.tensor);
  LayerShape shape;
  shape.sequences = static_cast<double>(recipe.batch.micro);
  shape.sequence_length = static_cast<double>(recipe.batch.sequence_length);
  shape.context = static_cast<double>(mesh.context);
  shape.tokens = shape.sequences * shape.sequence_length / shape.context;
  shape.row_tokens = recipe.parallel.sequence ? shape.tokens / tensor : shape.tokens;
  shape.hidden = static_cast<double>(model.hidden_size);
  shape.heads = static_cast<double>(model.heads) / tensor;
  shape.head_dim = static_cast<double>(model.head_dim);
  shape.query_width = shape.heads * shape.head_dim;
  shape.key_width = std::max(1.0, static_cast<double>(model.kv_heads) / tensor) * shape.head_dim;
  shape.ffn_width = static_cast<double>(model.ffn_hidden_size) / tensor;
  shape.vocabulary = std::ceil(static_cast<double>(model.vocab_size) / tensor);
  shape.gated = model.activation == Activation::swiglu;
  shape.rotates = model.position == Position::rope;
  shape.query_norm = model.qk_norm;
  shape.drops = model.dropout > 0;
  shape.fused_attention = takes_fused_attention(recipe);
  return shape;
}

}  // namespace llmtrain
