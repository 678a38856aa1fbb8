// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/search/layout_space.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "core/graph/sharding.h"
#include "core/recipe/schedules/batch_sizes.h"
#include "parallel/plan/cost/divisors.h"
#include "parallel/plan/planner/uniform_recompute.h"

namespace llmtrain {
namespace {

constexpr std::int64_t largest_micro_batch = 64;
// With fewer tokens a context rank does little but wait for the keys of the others.
constexpr std::int64_t fewest_context_tokens = 128;

std::int64_t quotient_up(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

}  // namespace

std::vector<DegreeChoice> LayoutSpace::degrees() const {
  std::vector<DegreeChoice> found;
  // Tensor ranks communicate within every layer, so they stay inside a node.
  for (const std::int64_t tensor : divisors(mesh_.devices_per_node)) {
    if (mesh_.world() % tensor != 0 || undivided(graph_, {.tensor = tensor}) != nullptr) continue;
    for (const std::int64_t pipeline : divisors(mesh_.world() / tensor)) {
      // A stage without layers holds the embedding or the head.
      if (pipeline > std::ssize(graph_.blocks)) break;
      for (const std::int64_t context : divisors(mesh_.world() / (tensor * pipeline))) {
        const std::int64_t data = mesh_.world() / (tensor * pipeline * context), length = recipe_.batch.sequence_length;
        const bool is_short = length / context < fewest_context_tokens && context > recipe_.parallel.context;
        if (length % context != 0 || (context > 1 && is_short) || common_batch(recipe_.batch) % data != 0) continue;
        add_experts({.tensor = tensor, .context = context, .pipeline = pipeline, .data = data}, found);
      }
    }
  }
  return found;
}

// Whole experts on every one of a stage's ranks, or parts of them. As tensor ranks do, those that split one exchange
// rows within every layer, so they stay inside a node. Without experts the keys concern nothing.
void LayoutSpace::add_experts(DegreeChoice degrees, std::vector<DegreeChoice>& found) const {
  degrees.expert_tensor = degrees.tensor;
  if (!recipe_.model.moe) return found.push_back(degrees);
  const std::int64_t ranks = degrees.tensor * degrees.context * degrees.data;
  for (const std::int64_t split : divisors(std::gcd(ranks, mesh_.devices_per_node))) {
    if (undivided(graph_, {.tensor = degrees.tensor, .expert_tensor = split}) != nullptr) continue;
    degrees.expert_tensor = split;
    for (const std::int64_t expert : divisors(std::gcd(common_experts(graph_), ranks / split))) {
      degrees.expert = expert;
      found.push_back(degrees);
    }
  }
}

// Sharded over all data ranks, or over those of a node with copies on the others: less traffic between nodes for more
// memory. ZeRO shards over data × context ranks; with one there is nothing to shard, but where shards are on the host.
std::vector<ShardingChoice> LayoutSpace::shardings(const DegreeChoice& degrees) const {
  if (brings_weights()) return {{3, std::nullopt}};
  std::vector<ShardingChoice> found{{0, std::nullopt}};
  if (degrees.data * degrees.context == 1) return found;
  const std::int64_t in_node = mesh_.devices_per_node / (degrees.tensor * degrees.context);
  const bool by_node = in_node > 1 && in_node < degrees.data && degrees.data % in_node == 0;
  for (std::int64_t stage = 1; stage <= 3; ++stage) {
    found.push_back({stage, std::nullopt});
    if (by_node) found.push_back({stage, in_node});
  }
  return found;
}

std::vector<Fp8Level> LayoutSpace::fp8_levels() const {
  std::vector<Fp8Level> levels;
  for (int level = 0; level <= static_cast<int>(recipe_.precision.fp8_level); ++level)
    levels.push_back(static_cast<Fp8Level>(level));
  return levels;
}

std::vector<PassChoice> LayoutSpace::passes(const DegreeChoice& degrees) const {
  std::vector<PassChoice> found;
  const Recipe layout = recipe({.degrees = degrees, .sharding = {}, .passes = {}, .stages = {}});
  for (const std::int64_t micro : divisors(common_batch(recipe_.batch) / degrees.data)) {
    if (micro > largest_micro_batch) break;
    for (const Recompute recompute : recompute_choices(layout.parallel))
      for (const Fp8Level level : fp8_levels()) found.push_back({micro, recompute, level});
  }
  return found;
}

std::int64_t LayoutSpace::placed(BalanceKind balance) const {
  return balance == BalanceKind::blocks ? std::ssize(graph_.blocks) : units_;
}

// Numbers of stages per rank: for each size of the largest stage the fewest, and of these no two that are about equal.
std::vector<std::int64_t> LayoutSpace::loops_of(std::int64_t pipeline, BalanceKind balance) const {
  const std::int64_t units = placed(balance);
  const std::int64_t most = units / pipeline;
  std::vector<std::int64_t> found;
  for (std::int64_t largest = 1; largest <= quotient_up(units, pipeline); ++largest) {
    const std::int64_t loops = std::min(most, quotient_up(units, pipeline * largest));
    if (loops > 0 && (found.empty() || loops == 1 || 5 * loops <= 4 * found.back())) found.push_back(loops);
    if (loops == 1) break;
  }
  return found;
}

std::vector<StageChoice> LayoutSpace::stages(const DegreeChoice& degrees, const ShardingChoice& sharding,
                                             std::int64_t micro) const {
  using enum PipelineSchedule;
  const std::int64_t micros = micro_batches(degrees, micro);
  std::vector<StageChoice> found;
  if (degrees.pipeline == 1) {
    found.push_back({1, BalanceKind::layers, breadth_first});
    // Gradient accumulation: one micro-batch's activations at a time instead of all of them.
    if (micros > 1) found.push_back({1, BalanceKind::layers, one_forward_one_backward});
    // Without a pipeline more stages only help ZeRO-3, which then gathers a stage's weights at a time, and ZeRO-2,
    // which holds a stage's whole gradients.
    if (sharding.zero_stage < 2) return found;
    for (const std::int64_t loops : loops_of(1, BalanceKind::layers))
      if (loops > 1)
        for (const auto schedule : {breadth_first, interleaved})
          found.push_back({loops, BalanceKind::layers, schedule});
    return found;
  }
  for (const BalanceKind balance : {BalanceKind::layers, BalanceKind::blocks}) {
    for (const std::int64_t loops : loops_of(degrees.pipeline, balance)) {
      const std::int64_t count = degrees.pipeline * loops;
      // Embedding and head in place of a layer where those stages have a layer less anyway.
      if (balance == BalanceKind::blocks && count <= units_ && placed(balance) % count == 0) continue;
      found.push_back({loops, balance, breadth_first});
      if (loops == 1) found.push_back({loops, balance, one_forward_one_backward});
      // Interleaved handles micro-batches in groups of `pipeline`; with one loop it is 1F1B.
      if (loops > 1 && common_batch(recipe_.batch) / (degrees.data * micro) % degrees.pipeline == 0)
        found.push_back({loops, balance, interleaved});
    }
  }
  return found;
}

// Sequences of all lengths come out even.
bool LayoutSpace::splits_sequences(std::int64_t parts) const {
  const auto& curriculum = recipe_.data.curriculum.sequence_length;
  return recipe_.batch.sequence_length % parts == 0 && !recipe_.training.token_dropping &&
         (!curriculum || curriculum->schedule.multiple % parts == 0);
}

Recipe LayoutSpace::recipe(const LayoutChoice& choice) const {
  const auto& [degrees, sharding, passes, stages] = choice;
  Recipe layout = recipe_;
  ParallelRecipe& parallel = layout.parallel;
  parallel.tensor = degrees.tensor;
  // Sequence parallelism saves memory at nearly the same traffic (Korthikanti et al., arXiv 2205.05198).
  parallel.sequence = degrees.tensor > 1 && splits_sequences(degrees.tensor * degrees.context);
  parallel.context = degrees.context;
  parallel.pipeline = degrees.pipeline;
  parallel.data = degrees.data;
  parallel.expert = degrees.expert;
  parallel.expert_tensor = degrees.expert_tensor;
  parallel.expert_slices = std::nullopt;
  parallel.zero_stage = sharding.zero_stage;
  parallel.zero_shard_ranks = sharding.shard_ranks;
  layout.batch.micro = passes.micro;
  recompute_in_all_layers(layout.memory, passes.recompute);
  layout.precision.fp8_level = passes.fp8_level;
  layout.precision.stochastic_rounding = recipe_.precision.stochastic_rounding && stores_fp8(passes.fp8_level);
  // A list in the recipe fits only its own number of stages.
  layout.pipeline = {.schedule = stages.schedule, .loops = stages.loops, .balance = {stages.balance, {}}};
  return layout;
}

}  // namespace llmtrain
