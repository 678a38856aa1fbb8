// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "parallel/plan/planner/search.h"

namespace llmtrain {
namespace {

constexpr std::int64_t largest_micro_batch = 64;

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) found.push_back(divisor);
  return found;
}

class LayoutWalk {
 public:
  LayoutWalk(const Recipe& recipe, const Mesh& mesh, const std::function<void(const Recipe&)>& visit)
      : layout_(recipe), fp8_level_(recipe.precision.fp8_level), mesh_(mesh), visit_(visit) {}

  void walk() {
    const ModelRecipe& model = layout_.model;
    // Tensor ranks communicate within every layer, so they stay inside a node.
    for (const std::int64_t tensor : divisors(mesh_.devices_per_node)) {
      if (model.heads % tensor != 0 || model.ffn_hidden_size % tensor != 0) continue;
      for (const std::int64_t pipeline : divisors(model.layers)) {
        const std::int64_t others = tensor * pipeline * mesh_.context;
        if (mesh_.world() % others != 0) continue;
        set_mesh(tensor, pipeline, mesh_.world() / others);
      }
    }
  }

 private:
  // Sequences of all lengths come out even.
  bool splits_sequences(std::int64_t parts) const {
    const auto& curriculum = layout_.data.curriculum.sequence_length;
    return layout_.batch.sequence_length % parts == 0 && !layout_.training.token_dropping &&
           (!curriculum || curriculum->schedule.multiple % parts == 0);
  }

  void set_mesh(std::int64_t tensor, std::int64_t pipeline, std::int64_t data) {
    if (layout_.batch.global % data != 0) return;
    layout_.parallel.tensor = tensor;
    // Sequence parallelism saves memory at nearly the same traffic (Korthikanti et al., arXiv 2205.05198).
    layout_.parallel.sequence = tensor > 1 && splits_sequences(tensor * mesh_.context);
    layout_.parallel.pipeline = pipeline;
    layout_.parallel.data = data;
    layout_.parallel.expert_slices = std::nullopt;
    const std::int64_t experts = layout_.model.moe ? layout_.model.moe->experts : 1;
    const std::int64_t ranks = tensor * mesh_.context * data;
    for (const std::int64_t split : expert_splits(ranks)) {
      layout_.parallel.expert_tensor = split;
      for (const std::int64_t expert : divisors(std::gcd(experts, ranks / split))) {
        layout_.parallel.expert = expert;
        set_batch(layout_.batch.global / data);
      }
    }
  }

  // Whole experts on every one of a stage's ranks, or parts of them. As tensor ranks do, those that split one exchange
  // rows within every layer, so they stay inside a node. Without experts the key concerns nothing.
  std::vector<std::int64_t> expert_splits(std::int64_t ranks) const {
    if (!layout_.model.moe) return {layout_.parallel.tensor};
    std::vector<std::int64_t> splits = divisors(std::gcd(ranks, mesh_.devices_per_node));
    std::erase_if(splits, [&](std::int64_t split) { return layout_.model.moe->ffn_hidden_size % split != 0; });
    return splits;
  }

  void set_batch(std::int64_t samples) {
    for (const std::int64_t micro : divisors(samples)) {
      if (micro > largest_micro_batch) return;
      layout_.batch.micro = micro;
      set_pipeline(samples / micro);
    }
  }

  void set_pipeline(std::int64_t micros) {
    PipelineRecipe& pipeline = layout_.pipeline;
    // A list in the recipe fits only its own number of stages.
    pipeline.balance = {};
    if (layout_.parallel.pipeline == 1) return set_single_rank(micros);
    pipeline.schedule = PipelineSchedule::one_forward_one_backward;
    pipeline.loops = 1;
    set_sharding();
    const std::int64_t layers_a_rank = layout_.model.layers / layout_.parallel.pipeline;
    for (const std::int64_t loops : divisors(layers_a_rank)) {
      pipeline.loops = loops;
      pipeline.schedule = PipelineSchedule::breadth_first;
      set_sharding();
      // Interleaved handles micro-batches in groups of `pipeline`; with one loop it is 1F1B.
      if (loops == 1 || micros % layout_.parallel.pipeline != 0) continue;
      pipeline.schedule = PipelineSchedule::interleaved;
      set_sharding();
    }
  }

  // Without a pipeline loops only help ZeRO-3, which then gathers a stage's weights at a time, and ZeRO-2, which holds
  // a stage's whole gradients.
  void set_single_rank(std::int64_t micros) {
    layout_.pipeline.schedule = PipelineSchedule::breadth_first;
    layout_.pipeline.loops = 1;
    set_sharding();
    if (micros > 1) {
      // Gradient accumulation: one micro-batch's activations at a time instead of all of them.
      layout_.pipeline.schedule = PipelineSchedule::one_forward_one_backward;
      set_sharding();
    }
    if (*layout_.parallel.data == 1) return;
    for (const std::int64_t loops : divisors(layout_.model.layers)) {
      if (loops == 1) continue;
      layout_.pipeline.loops = loops;
      for (const auto schedule : {PipelineSchedule::breadth_first, PipelineSchedule::interleaved}) {
        layout_.pipeline.schedule = schedule;
        for (const std::int64_t stage : {2, 3}) {
          layout_.parallel.zero_stage = stage;
          set_shard_ranks();
        }
      }
    }
  }

  void set_sharding() {
    // ZeRO shards over data × context ranks; with one there is nothing to shard.
    const std::int64_t highest = *layout_.parallel.data * mesh_.context > 1 ? 3 : 0;
    for (std::int64_t stage = 0; stage <= highest; ++stage) {
      layout_.parallel.zero_stage = stage;
      set_shard_ranks();
    }
  }

  // Shards over all data ranks, or over those of a node with copies on the others: less traffic between nodes for more
  // memory.
  void set_shard_ranks() {
    layout_.parallel.zero_shard_ranks.reset();
    set_memory();
    const std::int64_t data = *layout_.parallel.data;
    const std::int64_t in_node = mesh_.devices_per_node / (layout_.parallel.tensor * mesh_.context);
    if (layout_.parallel.zero_stage == 0 || in_node <= 1 || in_node >= data || data % in_node != 0) return;
    layout_.parallel.zero_shard_ranks = in_node;
    set_memory();
    layout_.parallel.zero_shard_ranks.reset();
  }

  void set_memory() {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::computation, Recompute::full}) {
      // Equal to full where there is nothing to exchange.
      if (recompute == Recompute::computation && !exchanges_activations(layout_.parallel)) continue;
      layout_.memory.recompute = recompute;
      // FP8 affects accuracy, so the search never goes beyond what the recipe accepts.
      for (int level = 0; level <= static_cast<int>(fp8_level_); ++level) {
        layout_.precision.fp8_level = static_cast<Fp8Level>(level);
        visit_(layout_);
      }
    }
  }

  Recipe layout_;
  Fp8Level fp8_level_;
  const Mesh& mesh_;
  const std::function<void(const Recipe&)>& visit_;
};

}  // namespace

void for_each_layout(const Recipe& recipe, const Mesh& mesh, const std::function<void(const Recipe&)>& visit) {
  LayoutWalk(recipe, mesh, visit).walk();
}

}  // namespace llmtrain
