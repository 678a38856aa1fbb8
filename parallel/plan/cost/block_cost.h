// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/cost/collective_cost.h"
#include "parallel/plan/cost/cost_constants.h"
#include "parallel/plan/cost/layer_shape.h"
#include "parallel/plan/cost/roofline.h"
#include "parallel/plan/step_costs.h"

namespace llmtrain {

// Everything that prices a block: what is asked, on what, and with which assumptions. References live as long as it.
struct CostContext {
  const Recipe& recipe;
  const Mesh& mesh;
  const CostConstants& constants;
  LayerShape shape;
  Roofline roofline;
  CollectiveCost collectives;
  const ClusterProfile& profile;

  CostContext(const Recipe& recipe_in, const Mesh& mesh_in, const ClusterProfile& profile_in,
              const CostConstants& constants_in);
};

// A part of a block: its operators and what its collectives take.
struct Segment {
  Work work;
  double communication_seconds = 0;

  Segment& operator+=(const Segment& other) {
    work += other.work;
    communication_seconds += other.communication_seconds;
    return *this;
  }
};

struct PassPair {
  Segment forward;
  Segment backward;

  PassPair& operator+=(const PassPair& other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
  }
};

// A product with a weight matrix, forward and backward (gradients of input and of weight), with FP8's casts and
// transposes at FP8 levels (FP8-LM, arXiv 2310.18313, section 2). `product` is the forward's.
PassPair linear_cost(const CostContext& context, const MatrixProduct& product);
PassPair elementwise_cost(const CostContext& context, double forward_elements, double backward_elements,
                          double mask_elements = 0);
// Keys and values of a micro-batch's whole sequences in one layer, which context ranks bring together.
double gathered_keys_bytes(const CostContext& context);
// The core alone: from query, key, value to what the output projection reads, with context parallelism's collectives.
PassPair attention_cost(const CostContext& context);
// The tensor group's all-reduces, or with sequence parallelism all-gathers and reduce-scatters, around one half of a
// layer: one in each direction.
PassPair tensor_parallel_cost(const CostContext& context);
// Feed-forward network of that width over so many tokens, without its collectives.
PassPair feed_forward_cost(const CostContext& context, double tokens, double width, double experts = 1);
// Router, dispatch, all-to-all, experts, combination.
PassPair experts_cost(const CostContext& context);

enum class LayerKind { dense, experts };

// A stage's building blocks, recompute included.
StageCost embedding_cost(const CostContext& context);
StageCost layer_cost(const CostContext& context, LayerKind kind);
StageCost head_cost(const CostContext& context);

// What `tensor` ranks gather in a micro-batch to join their parts of the cross-entropy: largest logit, sum and target's
// logit of each row, in 32 bits, of all of them.
double cross_entropy_exchange_bytes(const LayerShape& shape, std::int64_t tensor);

}  // namespace llmtrain
