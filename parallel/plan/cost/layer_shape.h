// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/recipe.h"
#include "parallel/plan/mesh.h"

namespace llmtrain {

// One rank's part of a micro-batch in a transformer layer, in elements. Real numbers: what does not divide is spread.
struct LayerShape {
  double sequences = 0;
  double sequence_length = 0;  // of the whole sequence: what attention sees
  double tokens = 0;           // on this rank, after context parallelism
  double row_tokens = 0;       // of them those whose norms and residuals this rank computes (sequence parallelism)
  double hidden = 0;
  double heads = 0;  // on this rank
  double head_dim = 0;
  double query_width = 0;
  double key_width = 0;
  double ffn_width = 0;
  double vocabulary = 0;
  double context = 1;
  bool gated = false;
  bool rotates = false;
  bool query_norm = false;
  bool drops = false;
  bool fused_attention = false;
};

LayerShape make_layer_shape(const Recipe& recipe, const Mesh& mesh);

}  // namespace llmtrain
