// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "core/model/block_module.h"
#include "core/model/context_ranks.h"
#include "core/model/head_block.h"
#include "core/model/parameter_store.h"
#include "core/recipe/recipe.h"
#include "kernels/rope.h"

namespace llmtrain {

// How the blocks of a stage are built, beside the model itself.
struct StageOptions {
  AttentionKernel attention = AttentionKernel::automatic;
  Recompute recompute = Recompute::none;
  const kernels::RopeTable* rope = nullptr;  // outlives the stage; null without rotary positions
  const TensorRanks* tensor = nullptr;       // outlives the stage; null where this rank has all features
  ActivationRows rows = ActivationRows::whole;
  const ContextRanks* context = nullptr;  // outlives the stage; null where no ranks share the sequences
};

// The parameters of `blocks`, in order: what a stage's store holds.
std::vector<std::size_t> parameters_of(const Graph& graph, std::span<const std::size_t> blocks);

// Consecutive blocks of the Graph on one rank, and what they keep of every micro-batch under way.
class StageModule {
 public:
  // `store` holds the blocks' parameters, `embedding_store` the token embedding that the
  // embedding block and a tied head read; both outlive this.
  StageModule(const Graph& graph, std::span<const std::size_t> blocks, ParameterStore& store,
              ParameterStore& embedding_store, const StageOptions& options);

  // Runs the blocks on micro-batch number `index`. In training its saved activations stay until its backward.
  at::Tensor forward(at::Tensor x, std::int64_t index, const MicroBatch& micro, Pass pass);
  // Frees the micro-batch's saved activations block by block. Returns the gradient of the stage's input.
  at::Tensor backward(at::Tensor dy, std::int64_t index, const MicroBatch& micro);

  // The head's logits [T, V], on every tensor rank; x is the stage's input. The stage must hold the head.
  at::Tensor logits(at::Tensor x, const MicroBatch& micro);

 private:
  using SavedBlocks = std::vector<std::unique_ptr<SavedActivations>>;

  std::vector<std::unique_ptr<BlockModule>> blocks_;
  const HeadBlock* head_ = nullptr;
  std::map<std::int64_t, SavedBlocks> saved_;
};

}  // namespace llmtrain
