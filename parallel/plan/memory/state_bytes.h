// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Bytes that a parameter's element takes in each form that training keeps of it.
struct StateBytes {
  double weight = 0;
  double gradient = 0;
  double master = 0;
  double moments = 0;  // both

  double total() const { return weight + gradient + master + moments; }
};

// Whether FP8 levels store this parameter of a block of that kind in FP8: the weight matrices of the layers' linear
// maps. Embeddings, the head, routers, biases and norms stay 16-bit (Peng et al., arXiv 2310.18313).
bool is_fp8_parameter(const Parameter& parameter, BlockKind block);

// fp32: weights 4, moments 8, no master copy. bf16 and fp16: weights 2, master 4, moments 8. Gradients are
// precision.gradients. FP8 parameters (MS-AMP's optimization levels): O1 weights 2 and gradients 1 with fp32 moments,
// O2 moments 1 + 2, O3 weights 1 with a 16-bit master copy.
StateBytes state_bytes(const PrecisionRecipe& precision);
StateBytes fp8_state_bytes(Fp8Level level);

}  // namespace llmtrain
