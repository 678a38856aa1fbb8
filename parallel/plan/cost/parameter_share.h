// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/graph.h"
#include "parallel/plan/mesh.h"
#include "parallel/plan/placement.h"

namespace llmtrain {

// Elements of parameters that one rank holds before ZeRO shards them, by what they cost to move: FP8 levels shorten the
// weights of linear layers alone, and experts have fewer ranks that hold the same ones.
struct ParameterShare {
  double linear = 0;
  double other = 0;  // embeddings, head, norms, biases, routers
  double experts = 0;
  double tensors = 0;

  ParameterShare& operator+=(const ParameterShare& share);
  double elements() const { return linear + other + experts; }
};

// By stage. With tied embeddings the stage of the head has a copy of the token embedding where the embedding lies on
// another pipeline rank.
std::vector<ParameterShare> parameter_shares(const Graph& graph, const Mesh& mesh, const std::vector<Stage>& stages);

// Bytes of a tied embedding's gradients that its two stages exchange, 0 where there is one.
double tied_embedding_elements(const Graph& graph, const Mesh& mesh, const std::vector<Stage>& stages);

}  // namespace llmtrain
