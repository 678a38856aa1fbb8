// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/graph.h"

namespace llmtrain {

// One half of a layer, over all devices, in elements of one token but for the weights.
struct HalfShape {
  double in_features = 0;   // that the products which read the model's width make
  double out_features = 0;  // that the product which writes it reads
  double weights = 0;       // elements of its matrices
};

// The sizes of a transformer layer that devices split and exchange.
struct LayerShape {
  double width = 0;  // of the model
  HalfShape attention{}, feed_forward{};
  bool has_one_input = false;  // both halves read one input, and their results are summed at once
  double query = 0;            // elements of a token: of the queries of all heads
  double heads = 1;
  double key_heads = 1;    // of which each is cached whole; 1 with latent attention, whose heads share one
  double cached = 0;       // elements of a token that each of these has in the cache
  double cached_rows = 2;  // a key and a value, in which they are; 1 with latent attention
  double score_width = 0;  // elements of a key that a query is multiplied with in a pass of single tokens
  double value_width = 0;  // and of a value that its scores weigh
  double window = 0;       // the most tokens that a query sees; 0: all before it
};

// The block must be a transformer layer.
LayerShape layer_shape(const Graph& graph, std::size_t block);

}  // namespace llmtrain
