// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/parallel/engine/train_ranks.h"

// Models with experts and their layouts, whose plans are compared with runs.
namespace llmtrain::test {

// No token is dropped, so that there are as many rows whatever the routing, and the plan's even routing is the run's.
inline const char* const dropless =
    "model.moe={\"experts\": 8, \"top_k\": 2, \"capacity_factor\": 0, \"ffn_hidden_size\": 96}";

// Every token goes to every expert, which is as even as the plan's routing: ranks send as many rows as it expects.
inline const char* const even =
    "model.moe={\"experts\": 4, \"top_k\": 4, \"capacity_factor\": 0, \"ffn_hidden_size\": 96}";

// As even with fewer choices than experts: tokens follow it whatever the routers say.
inline const char* const replayed_even =
    "model.moe={\"experts\": 8, \"top_k\": 2, \"capacity_factor\": 0, \"ffn_hidden_size\": 96, \"routing_zipf\": 0}";

// First among the four ranks of a node.
inline Overrides over_nodes(const Overrides& layout) {
  return Overrides{even, "parallel.expert_all_to_all=\"hierarchical\"", "cluster.nodes=2", "cluster.devices_per_node=4",
                   "batch.global=16"} +
         layout;
}

// Whose layers run again without other ranks.
inline const std::vector<RankCase> recomputing_expert_layouts{
    {2, {even, "parallel.expert=2", "parallel.zero_stage=1", "memory.recompute=\"computation\""}},
    {4,
     {even, "parallel.tensor=2", "parallel.expert=2", "parallel.sequence=false", "memory.recompute=\"computation\"",
      "parallel.expert_overlap=2"}},
    {4,
     {replayed_even, "model.moe.capacity_factor=1", "parallel.tensor=2", "parallel.expert_tensor=1",
      "parallel.expert=2", "precision.fp8_level=\"O0\"", "memory.recompute=\"computation\""}},
    {8, over_nodes({"parallel.expert=4", "parallel.tensor=2", "memory.recompute=\"computation\""})},
};

// Data ranks split the matrices of each expert.
inline const std::vector<RankCase> sliced_expert_layouts{
    {4, {even, "parallel.expert=2", "parallel.expert_tensor=2", "parallel.expert_overlap=2"}},
    {4, {even, "parallel.expert_tensor=2", "parallel.zero_stage=3", "pipeline.loops=2", "precision.compute=\"bf16\""}},
    {8,
     {even, "parallel.tensor=2", "parallel.expert=2", "parallel.expert_tensor=4", "parallel.zero_stage=1",
      "memory.recompute=\"full\"", "batch.global=16"}},
    {8,
     {replayed_even, "parallel.expert=2", "parallel.expert_tensor=2", "parallel.zero_stage=3",
      "parallel.zero_shard_ranks=4", "pipeline.loops=2", "batch.global=16"}},
    {4, {even, "parallel.expert=2", "parallel.expert_tensor=2", "precision.fp8_level=\"O2\"", "parallel.zero_stage=1"}},
};

// Expert groups of tensor, context and data ranks.
inline const std::vector<RankCase> folded_expert_layouts{
    {4, {even, "parallel.tensor=2", "parallel.expert_tensor=1", "parallel.expert=4"}},
    {4,
     {even, "parallel.tensor=2", "parallel.context=2", "parallel.expert_tensor=1", "parallel.expert=2",
      "parallel.zero_stage=3", "pipeline.loops=2"}},
    {4,
     {even, "parallel.tensor=4", "parallel.expert_tensor=2", "parallel.expert=2", "parallel.expert_overlap=2",
      "memory.recompute=\"full\""}},
    {8,
     {replayed_even, "parallel.tensor=2", "parallel.context=2", "parallel.expert_tensor=1", "parallel.expert=8",
      "precision.compute=\"bf16\"", "batch.global=16"}},
    {8,
     {even, "parallel.tensor=2", "parallel.expert_tensor=1", "parallel.expert=2", "parallel.pipeline=2",
      "parallel.zero_stage=2", "batch.global=16"}},
    {4,
     {even, "parallel.tensor=2", "parallel.expert_tensor=1", "parallel.expert=2", "precision.fp8_level=\"O2\"",
      "parallel.zero_stage=1"}},
    {8, over_nodes({"model.moe.experts=8", "model.moe.top_k=8", "parallel.tensor=2", "parallel.expert_tensor=1",
                    "parallel.expert=8"})},
};

// Routers with parameters, losses and priorities of other kinds.
inline const std::vector<RankCase> router_layouts{
    {2, {even, "model.moe.router=\"cosine\"", "parallel.zero_stage=1", "memory.recompute=\"selective\""}},
    {4,
     {even, "model.moe.router=\"cosine\"", "model.moe.z_coefficient=0.01", "model.moe.jitter=0.1", "parallel.tensor=2",
      "parallel.expert=2", "parallel.zero_stage=1"}},
    {4, {even, "model.moe.router=\"cosine\"", "parallel.context=2", "parallel.pipeline=2", "parallel.zero_stage=1"}},
    {4,
     {replayed_even, "model.moe.capacity_factor=1", "model.moe.priority=\"score\"", "model.moe.jitter=0.1",
      "parallel.context=2", "parallel.expert=2", "parallel.zero_stage=3", "pipeline.loops=2"}},
    {8,
     {replayed_even, "model.moe.router=\"cosine\"", "model.moe.capacity_factor=1", "model.moe.priority=\"score\"",
      "model.moe.jitter=0.1", "model.moe.z_coefficient=0.01", "parallel.tensor=2", "parallel.context=2",
      "parallel.expert_tensor=1", "parallel.expert=2", "parallel.zero_stage=3", "pipeline.loops=2",
      "precision.compute=\"bf16\"", "memory.recompute=\"full\""}},
};

// Their states are cut finer than their products.
inline const std::vector<RankCase> joined_expert_layouts{
    {4, {even, "parallel.expert_slices=4", "parallel.zero_stage=3", "pipeline.loops=4"}},
    {8,
     {even, "parallel.expert=2", "parallel.expert_tensor=2", "parallel.expert_slices=4", "parallel.zero_stage=3",
      "pipeline.loops=2", "batch.global=16"}},
    // With so few tokens, what holds most are weights.
    {4,
     {even, "parallel.expert_slices=4", "parallel.zero_stage=3", "pipeline.loops=4", "batch.sequence_length=8",
      "model.moe.ffn_hidden_size=384"}},
    {4,
     {replayed_even, "parallel.tensor=2", "parallel.expert_tensor=1", "parallel.expert_slices=4",
      "parallel.zero_stage=3", "pipeline.loops=2", "precision.compute=\"bf16\"", "memory.recompute=\"full\""}},
    {8,
     {even, "parallel.expert_slices=2", "parallel.zero_stage=3", "parallel.zero_shard_ranks=4", "pipeline.loops=2",
      "pipeline.schedule=\"interleaved\"", "batch.global=16"}},
    // Between the exchanges of tokens, which are kept, a rank that joins its slices gathers no rows, and keeps none.
    {4,
     {even, "parallel.expert=2", "parallel.expert_slices=2", "parallel.expert_tensor=1", "parallel.zero_stage=3",
      "pipeline.loops=2", "memory.recompute=\"computation\"", "batch.micro=16", "batch.global=64"}},
};

inline const std::vector<RankCase> expert_layouts{
    {8, over_nodes({"parallel.expert=8", "model.moe.experts=8", "model.moe.top_k=8"})},
    {8, over_nodes({"parallel.expert=4", "parallel.tensor=2", "parallel.expert_overlap=2", "parallel.zero_stage=1"})},
    {2, {even, "parallel.expert=2"}},
    {2, {even, "parallel.expert=2", "parallel.zero_stage=1", "memory.recompute=\"full\""}},
    {4, {even, "parallel.expert=4", "parallel.zero_stage=2", "pipeline.loops=4", "pipeline.schedule=\"interleaved\""}},
    {4, {even, "parallel.expert=2", "parallel.zero_stage=3", "pipeline.loops=2", "precision.compute=\"bf16\""}},
    {8,
     {even, "parallel.expert=2", "parallel.zero_stage=3", "parallel.zero_shard_ranks=2", "pipeline.loops=2",
      "pipeline.schedule=\"interleaved\"", "batch.global=16"}},
    {8,
     {even, "parallel.expert=2", "parallel.zero_stage=3", "parallel.zero_shard_ranks=4", "parallel.pipeline=2",
      "batch.global=16"}},
    {2, {even, "parallel.context=2"}},
    {4, {even, "parallel.expert=2", "parallel.context=2", "parallel.zero_stage=3", "pipeline.loops=2"}},
    {2, {even, "parallel.tensor=2"}},
    {2, {even, "parallel.tensor=2", "parallel.sequence=false", "model.architecture=\"gpt2\""}},
    {4, {even, "parallel.tensor=2", "parallel.expert=2", "parallel.zero_stage=1", "memory.recompute=\"full\""}},
    {4, {even, "parallel.tensor=4", "parallel.expert_tensor=2", "parallel.zero_stage=2", "pipeline.loops=2"}},
    {8,
     {even, "parallel.tensor=2", "parallel.expert_tensor=1", "parallel.expert=2", "parallel.context=2",
      "parallel.zero_stage=3", "pipeline.loops=2", "precision.compute=\"bf16\"", "memory.recompute=\"selective\""}},
    {8,
     {even, "model.moe.shared_experts=1", "model.moe.shared_gate=true", "parallel.tensor=2", "parallel.context=2",
      "parallel.pipeline=2", "parallel.zero_stage=1"}},
    {2, {replayed_even, "parallel.expert=2"}},
    {4, {replayed_even, "parallel.expert=4", "parallel.zero_stage=3", "pipeline.loops=2"}},
    {4, {replayed_even, "model.moe.capacity_factor=1", "parallel.tensor=2", "parallel.expert=2"}},
    {8,
     {replayed_even, "model.moe.balance_loss=\"load_importance\"", "parallel.tensor=2", "parallel.expert_tensor=1",
      "parallel.expert=2", "parallel.context=2", "log.routing=true"}},
    {2, {even, "parallel.expert=2", "parallel.expert_overlap=2"}},
    {2, {even, "parallel.expert=2", "parallel.expert_overlap=\"auto\""}},
    {4, {replayed_even, "parallel.expert=4", "parallel.expert_overlap=8", "parallel.zero_stage=3", "pipeline.loops=2"}},
    {4,
     {even, "parallel.tensor=2", "parallel.expert=2", "parallel.expert_overlap=4", "memory.recompute=\"full\"",
      "precision.fp8_level=\"O0\""}},
    {4,
     {even, "parallel.tensor=2", "parallel.expert_tensor=1", "parallel.expert=2", "parallel.expert_overlap=3",
      "precision.compute=\"bf16\"", "memory.recompute=\"selective\""}},
    {2, {even, "parallel.expert=2", "precision.fp8_level=\"O0\""}},
    {4, {even, "parallel.tensor=2", "parallel.expert=2", "precision.fp8_level=\"O0\"", "memory.recompute=\"full\""}},
    {2, {dropless, "precision.fp8_level=\"O0\"", "precision.compute=\"bf16\"", "memory.recompute=\"selective\""}},
    {2, {even, "parallel.expert=2", "precision.fp8_level=\"O1\""}},
    {4, {even, "parallel.expert=2", "precision.fp8_level=\"O2\"", "parallel.zero_stage=1"}},
    {4,
     {even, "parallel.tensor=2", "parallel.expert=2", "precision.fp8_level=\"O3\"", "parallel.zero_stage=3",
      "pipeline.loops=2"}},
    {2, {dropless, "precision.fp8_level=\"O1\"", "parallel.zero_stage=1"}},
    {2, {dropless, "precision.fp8_level=\"O3\"", "parallel.tensor=2"}},
    {2, {even, "parallel.expert=2", "precision.compute=\"fp16\"", "kernels.attention=\"math\""}},
    {1, {dropless}},
    {2, {dropless, "parallel.zero_stage=1", "memory.recompute=\"selective\""}},
    {2, {dropless, "parallel.zero_stage=3", "pipeline.loops=4", "memory.recompute=\"full\""}},
    {4, {dropless, "model.moe.every=2", "parallel.zero_stage=2", "parallel.zero_shard_ranks=2", "pipeline.loops=2"}},
    {4, {dropless, "parallel.pipeline=2", "pipeline.loops=2", "parallel.zero_stage=3", "precision.compute=\"bf16\""}},
};

}  // namespace llmtrain::test
