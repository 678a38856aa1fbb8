// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/graph/saved_tensors.h"

namespace llmtrain {

// Sizes on one rank in one micro-batch, as the tables of saved tensors multiply them. Tokens and features are counts,
// the rest is bytes an element.
struct LocalShape {
  double tokens = 0;        // of the rank's part of the sequences: where features are split
  double split_tokens = 0;  // where sequence parallelism splits tokens in place of features: norms, residuals
  double hidden = 0;
  double query = 0;  // features of the rank's query heads
  double key = 0;    // features of its key heads, and of its value heads
  double heads = 0;
  double kv_heads = 0;
  double scores = 0;  // elements of the attention matrices
  double inner = 0;   // width of the dense or shared feed-forward network; 0 without one
  double vocabulary = 0;
  double expert_rows = 0;   // places that the rank's experts compute
  double expert_inner = 0;  // width of one expert
  double experts = 0;       // routed experts of the layer, on all ranks; 0 in a dense layer
  double top_k = 0;
  double element = 4;     // of activations
  double gemm_input = 4;  // of the kept inputs of matrix products
};

LocalShape local_shape(const Graph& graph, std::size_t block, const PassSetting& setting);

// The rows of the two tables for one layer, its attention and its feed-forward half; rows with no bytes are left out.
struct LayerRows {
  std::vector<SavedTensor> attention;
  std::vector<SavedTensor> feed_forward;
};
LayerRows cuda_layer_rows(const ModelRecipe& model, const LocalShape& shape, const PassSetting& setting);
LayerRows cpu_layer_rows(const ModelRecipe& model, const LocalShape& shape, const PassSetting& setting);
LayerRows layer_rows(const Graph& graph, std::size_t block, const PassSetting& setting);

double sum_bytes(const std::vector<SavedTensor>& rows);
double kept_bytes(const std::vector<SavedTensor>& rows, Recompute recompute);

// Columns of a projection that makes the activation's input: gate and up for swiglu.
double activation_inputs(const ModelRecipe& model);

}  // namespace llmtrain
