// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "core/model/activation_offload.h"
#include "core/model/block_module.h"
#include "core/model/kept_exchanges.h"
#include "core/model/layers/context_ranks.h"
#include "core/model/layers/fp8_history.h"
#include "core/model/layers/tensor_ranks.h"
#include "core/model/moe/expert_ranks.h"
#include "core/model/rope_tables.h"
#include "core/model/stage_values.h"
#include "core/parameters/parameter_store.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

class BlockParameters;
struct StageOptions;

// Makes the module of a block; `kept`: where layers run again without other ranks, else null.
using BlockFactory = std::function<std::unique_ptr<BlockModule>(const BlockParameters& parameters,
                                                                const StageOptions& options, KeptExchanges* kept)>;
// The module of the block's kind.
std::unique_ptr<BlockModule> make_block(const BlockParameters& parameters, const StageOptions& options,
                                        KeptExchanges* kept);

// Options for building the blocks of a stage, in addition to the model.
struct StageOptions {
  AttentionKernel attention = AttentionKernel::automatic;
  Recompute recompute = Recompute::none;  // of blocks that the graph does not mark (Block::recompute)
  std::int64_t chunks = 1;                // of the part of a body that takes most memory
  const RopeTables* rope = nullptr;       // outlives the stage; has those of its layers, null where none rotates
  const TensorRanks* tensor = nullptr;    // outlives the stage; null where this rank has all features
  ActivationRows rows = ActivationRows::whole;
  const ContextRanks* context = nullptr;    // outlives the stage; null where no ranks share the sequences
  MixtureRanks experts;                     // outlive the stage
  bool fp8 = false;                         // whether the layers' matrix products take FP8
  const Fp8History* fp8_history = nullptr;  // outlives the stage; has which products have left FP8
  BlockFactory make = make_block;
  ActivationOffload* offload = nullptr;  // outlives the stage; null: what is saved stays where it is
};

// Consecutive blocks of the Graph on one rank, as the runner uses them.
class StagePasses {
 public:
  StagePasses() = default;
  StagePasses(const StagePasses&) = delete;
  StagePasses& operator=(const StagePasses&) = delete;
  virtual ~StagePasses() = default;

  struct Output {
    Tensors values;                  // that cross the cut behind the stage (values_across())
    std::vector<LossRows> losses{};  // of all blocks
    at::Tensor logits{};             // those that the last of its heads makes, as BlockModule::Output has them
  };

  // Runs the blocks on micro-batch number `index`, from the values that cross the cut before the stage to those that
  // cross the one behind it. In training its saved activations stay until its backward, if a block has one.
  virtual Output forward(Tensors incoming, std::int64_t index, const Batch& batch, const PassContext& pass) = 0;
  // From the gradients of the outgoing values to those of the incoming ones, which are undefined where blocks of the
  // stage have no backward. Frees the micro-batch's saved activations
  // block by block.
  virtual Tensors backward(Tensors gradients, std::int64_t index, const Batch& batch, const PassContext& pass) = 0;
  // What training forwards found since the last call, as LayerRouting has it, on the device: nobody waits for it.
  // Undefined where they found nothing. The first over all layers, the second of each of the model's.
  virtual at::Tensor take_routing() = 0;
  virtual std::vector<at::Tensor> take_chosen() = 0;
};

// The blocks, and what they keep for every micro-batch in flight.
class StageModule final : public StagePasses {
 public:
  // `stores` hold what the blocks read, also of blocks of other stages.
  StageModule(const Graph& graph, std::span<const std::size_t> blocks, const ParameterStores& stores,
              const StageOptions& options);

  Output forward(Tensors incoming, std::int64_t index, const Batch& batch, const PassContext& pass) override;
  Tensors backward(Tensors gradients, std::int64_t index, const Batch& batch, const PassContext& pass) override;
  at::Tensor take_routing() override;
  std::vector<at::Tensor> take_chosen() override;

 private:
  // What the blocks have saved of one micro-batch.
  struct SavedBlocks {
    std::vector<std::unique_ptr<SavedActivations>> blocks;
    std::optional<OffloadedActivations> elsewhere;
  };

  void count(std::size_t block, const LayerRouting& routing);

  std::size_t first_with_backward_;      // of the blocks
  std::unique_ptr<KeptExchanges> kept_;  // where layers run again without other ranks
  std::vector<std::unique_ptr<BlockModule>> blocks_;
  StageValues values_;
  std::vector<std::optional<std::int64_t>> layers_;  // of the blocks, their indices among the model's layers
  std::vector<std::int64_t> routed_layers_;          // those of the whole model that have experts
  ActivationOffload* offload_;
  std::map<std::int64_t, SavedBlocks> saved_;
  // On the device, as LayerRouting has them; undefined where nothing was found.
  at::Tensor routing_;
  std::vector<at::Tensor> chosen_;  // by layer of the model
};

}  // namespace llmtrain
