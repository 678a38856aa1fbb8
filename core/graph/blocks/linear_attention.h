// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/blocks/graph_writer.h"

namespace llmtrain {

// The parameters of linear attention in place of a layer's attention: as Qwen3-Next's gated delta rule or as Mamba-2 in
// Nemotron-H has them. Tensor ranks split key heads, with the value heads that belong to each.
void add_linear_attention(GraphWriter& writer, const LinearAttentionRecipe& linear);

}  // namespace llmtrain
