// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>

#include "core/recipe/hints.h"
#include "core/recipe/keys/key_table.h"
#include "core/recipe/pipeline_order.h"
#include "core/recipe/pipeline_schedules.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

// Tensor ranks split attention by heads and the feed-forward network by features; either must come out even.
Verdict check_heads(const Recipe& recipe, const Known&) {
  return must_divide(recipe.parallel.tensor, recipe.model.heads, "model.heads");
}

Verdict check_kv_heads(const Recipe& recipe, const Known&) {
  // More ranks than key and value heads: each head is then held by several ranks, equally many for each.
  if (recipe.parallel.tensor % recipe.model.kv_heads == 0) return {};
  // Fewer ranks than heads: each rank has equally many.
  return must_divide(recipe.parallel.tensor, recipe.model.kv_heads, "model.kv_heads, or be a multiple of it");
}

Verdict check_ffn(const Recipe& recipe, const Known&) {
  return must_divide(recipe.parallel.tensor, recipe.model.ffn_hidden_size, "model.ffn_hidden_size");
}

// Shared experts are one network, as wide as all of them.
Verdict check_shared_ffn(const Recipe& recipe, const Known&) {
  if (!recipe.model.moe || recipe.model.moe->shared_experts == 0) return {};
  return must_divide(recipe.parallel.tensor, recipe.model.moe->shared_experts * recipe.model.moe->ffn_hidden_size,
                     "model.moe.shared_experts × ffn_hidden_size");
}

Verdict check_sequence(const Recipe& recipe, const Known&) {
  const auto& parallel = recipe.parallel;
  // Context ranks split each sequence, and sequence parallelism splits each of these parts again, as routers do.
  const char* splitter = parallel.sequence ? "parallel.sequence splits" : "experts split";
  const bool splits = parallel.tensor > 1 && (parallel.sequence || recipe.model.moe);
  return must_be_multiple(
      recipe.batch.sequence_length, parallel.context * (splits ? parallel.tensor : 1),
      splits ? fmt::format("parallel.context × parallel.tensor, as {} it", splitter) : std::string("parallel.context"));
}

Verdict check_no_experts(const Recipe& recipe, const Known&) {
  if (recipe.model.moe || recipe.parallel.expert == 1) return {};
  return Refusal{std::to_string(recipe.parallel.expert) + " ranks have no experts to split",
                 "must be 1 without model.moe", "1"};
}

// The ranks of a pipeline stage, over which experts have a mesh of their own; none where the data ranks are not known.
std::optional<std::int64_t> stage_ranks(const Recipe& recipe, const Known& known) {
  const auto data = data_ranks(recipe, known);
  if (!data) return std::nullopt;
  return recipe.parallel.tensor * recipe.parallel.context * *data;
}

Verdict check_experts(const Recipe& recipe, const Known& known) {
  if (!recipe.model.moe) return {};
  const auto ranks = recipe.parallel.expert, experts = recipe.model.moe->experts;
  const auto splitting = expert_slices(recipe.parallel), stage = stage_ranks(recipe, known).value_or(0);
  // There are as many different experts as groups that split one. Where the groups are not whole, check_expert_ranks()
  // says so.
  const bool are_known = stage > 0 && stage % splitting == 0;
  const auto groups = are_known ? stage / splitting : experts;
  // The hint divides both.
  const auto whole = std::gcd(experts, groups);
  if (whole % ranks == 0) return {};
  const std::string found = splitting > 1
                                ? fmt::format("{} {} of {} ranks", groups, groups == 1 ? "group" : "groups", splitting)
                                : fmt::format("{} {}", groups, groups == 1 ? "rank" : "ranks");
  return Refusal{fmt::format("{} does not divide {} experts", ranks, experts) + (are_known ? " and " + found : ""),
                 std::string("must divide model.moe.experts") +
                     (are_known ? std::string(" and parallel.tensor × context × data ÷ ") +
                                      (recipe.parallel.expert_slices ? "expert_slices" : "expert_tensor")
                                : ""),
                 std::to_string(nearest_divisor(ranks, whole))};
}

Verdict check_expert_overlap(const Recipe& recipe, const Known&) {
  const ParallelRecipe& parallel = recipe.parallel;
  if (!parallel.expert_overlap || parallel.expert_overlap == 1 || parallel.expert > 1) return {};
  return Refusal{std::to_string(*parallel.expert_overlap) + " parts have no exchange to overlap",
                 "must be 1 where parallel.expert is 1", "1"};
}

Verdict check_all_to_all(const Recipe& recipe, const Known&) {
  const ParallelRecipe& parallel = recipe.parallel;
  if (parallel.expert_all_to_all != AllToAll::hierarchical || parallel.expert > 1) return {};
  return Refusal{"\"hierarchical\" exchanges nothing", "must be \"linear\" where parallel.expert is 1", "\"linear\""};
}

Verdict check_expert_ranks(const Recipe& recipe, const Known& known) {
  const auto stage = stage_ranks(recipe, known);
  if (!recipe.model.moe || !stage || !recipe.parallel.expert_tensor) return {};
  return must_divide(*recipe.parallel.expert_tensor, *stage, "parallel.tensor × context × data");
}

// What is tried in steps of a run is compared by their times.
Verdict check_automatic_split(const Recipe& recipe, const Known&) {
  if (recipe.parallel.expert_tensor) return {};
  const std::string tensor = std::to_string(recipe.parallel.tensor);
  if (!recipe.model.moe)
    return Refusal{"\"auto\" has no experts to split", "must be a number without model.moe", tensor};
  if (!recipe.parallel.expert_slices)
    return Refusal{"\"auto\" does not say into how many slices the states are cut",
                   "needs a number in parallel.expert_slices, which is the most that it may be", tensor};
  if (recipe.data.curriculum.sequence_length || recipe.batch.growth || recipe.training.token_dropping)
    return Refusal{"\"auto\" compares the times of steps, whose shapes differ",
                   "must be a number with data.curriculum.sequence_length, batch.growth or training.token_dropping",
                   tensor};
  return {};
}

// Ranks that compute with slices of others gather them, as ZeRO 3 gathers weights.
Verdict check_expert_slices(const Recipe& recipe, const Known&) {
  const ParallelRecipe& parallel = recipe.parallel;
  if (!parallel.expert_slices) return {};
  const std::int64_t slices = *parallel.expert_slices, ranks = parallel.expert_tensor.value_or(1);
  if (!recipe.model.moe)
    return Refusal{fmt::format("{} ranks have no experts to slice", slices), "must be \"auto\" without model.moe",
                   "\"auto\""};
  if (slices % ranks != 0)
    return Refusal{fmt::format("{} is not a multiple of {}", slices, ranks),
                   "must be a multiple of parallel.expert_tensor",
                   std::to_string(std::max<std::int64_t>(1, (slices + ranks / 2) / ranks) * ranks)};
  if (parallel.zero_stage == 3 || parallel.expert_tensor == slices) return {};
  // Also a single slice: what may be switched is gathered anew for every split, by the pass that uses it.
  if (!parallel.expert_tensor)
    return Refusal{fmt::format("ZeRO {} does not gather slices for use", parallel.zero_stage),
                   "must be \"auto\", and parallel.expert_tensor a number, unless parallel.zero_stage is 3",
                   "\"auto\""};
  return Refusal{fmt::format("ZeRO {} does not gather slices for use", parallel.zero_stage),
                 "must be parallel.expert_tensor unless parallel.zero_stage is 3", std::to_string(ranks)};
}

Verdict check_slice_ranks(const Recipe& recipe, const Known& known) {
  const auto stage = stage_ranks(recipe, known);
  if (!recipe.model.moe || !stage || !recipe.parallel.expert_slices) return {};
  return must_divide(*recipe.parallel.expert_slices, *stage, "parallel.tensor × context × data");
}

// As check_ffn, for the width of one expert and the ranks that split it.
Verdict check_expert_ffn(const Recipe& recipe, const Known&) {
  if (!recipe.model.moe || !recipe.parallel.expert_tensor) return {};
  return must_divide(*recipe.parallel.expert_tensor, recipe.model.moe->ffn_hidden_size, "model.moe.ffn_hidden_size");
}

Verdict check_slice_ffn(const Recipe& recipe, const Known&) {
  if (!recipe.model.moe || !recipe.parallel.expert_slices) return {};
  return must_divide(*recipe.parallel.expert_slices, recipe.model.moe->ffn_hidden_size, "model.moe.ffn_hidden_size");
}

Verdict check_shards(const Recipe& recipe, const Known& known) {
  const auto& ranks = recipe.parallel.zero_shard_ranks;
  const auto data = data_ranks(recipe, known);
  // The degree is not known yet: the rule is checked again once the world is.
  if (!ranks || !data) return {};
  return must_divide(*ranks, *data, "parallel.data");
}

Verdict check_loops(const Recipe& recipe, const Known&) {
  const auto& pipeline = recipe.pipeline;
  if (takes_loops(pipeline.schedule, recipe.parallel.pipeline, pipeline.loops)) return {};
  const auto word = traits_of(pipeline.schedule).word;
  // Named from the traits, so that a new schedule appears in the message by itself.
  std::vector<std::string_view> others;
  for (const auto& traits : schedule_traits)
    if (!traits.one_stage_per_rank) others.push_back(traits.word);
  return Refusal{fmt::format("{} is not possible with {}", pipeline.loops, word),
                 fmt::format("{} runs one stage per rank; pipeline.schedule {} runs more", word, choice_words(others)),
                 "1"};
}

std::int64_t stage_count(const Recipe& recipe) { return recipe.parallel.pipeline * recipe.pipeline.loops; }

std::string stages_text(const Recipe& recipe) {
  return fmt::format("the {} stages (pipeline {} × loops {})", stage_count(recipe), recipe.parallel.pipeline,
                     recipe.pipeline.loops);
}

// The embedding and the head count as one layer each, in "blocks" only.
std::int64_t extra_units(const Recipe& recipe) {
  return recipe.pipeline.balance.kind == BalanceKind::blocks ? block_count(recipe.model) - layer_count(recipe.model)
                                                             : 0;
}

// Fewer stages, or more layers for them.
std::string ways_out(const Recipe& recipe, std::int64_t units) {
  const auto ranks = recipe.parallel.pipeline, more = stage_count(recipe) - extra_units(recipe);
  // First the change that keeps the layers and, if possible, the ranks.
  auto text = ranks <= units ? fmt::format("set /pipeline/loops to {}", units / ranks)
                             : fmt::format("set /parallel/pipeline to {} and /pipeline/loops to 1", units);
  if (more <= layer_range.maximum) text += fmt::format(" or /model/layers to {}", more);
  return text;
}

Verdict check_balance(const Recipe& recipe, const Known&) {
  const auto layers = layer_count(recipe.model), units = layers + extra_units(recipe);
  const auto kind = recipe.pipeline.balance.kind;
  // check_listed_balance() checks a list.
  if (kind == BalanceKind::list || units >= stage_count(recipe)) return {};
  return Refusal{fmt::format("\"{}\" cannot split {} {}{} over {}", balance_words[static_cast<std::size_t>(kind)],
                             layers, layers == 1 ? "layer" : "layers",
                             kind == BalanceKind::blocks ? " with embedding and head" : "", stages_text(recipe)),
                 ways_out(recipe, units)};
}

Verdict check_listed_balance(const Recipe& recipe, const Known&) {
  const auto& [kind, list] = recipe.pipeline.balance;
  if (kind != BalanceKind::list) return {};
  if (static_cast<std::int64_t>(list.size()) != stage_count(recipe)) {
    return Refusal{fmt::format("the list has {} {}", list.size(), list.size() == 1 ? "entry" : "entries"),
                   "give one for each of " + stages_text(recipe)};
  }
  // A stage between the ends would have nothing to run.
  for (std::size_t stage = 1; stage + 1 < list.size(); ++stage) {
    if (list[stage] > 0) continue;
    return Refusal{fmt::format("stage {} has 0 layers", stage),
                   "at least 1, or 0 for the first and the last stage, which hold the embedding and the head"};
  }
  const auto sum = std::accumulate(list.begin(), list.end(), std::int64_t{0});
  const std::int64_t layers = layer_count(recipe.model);
  if (sum == layers) return {};
  return Refusal{fmt::format("the list [{}] holds {} layers", fmt::join(list, ", "), sum),
                 fmt::format("must add up to model.layers{} ({})",
                             recipe.model.decoder_layers > 0 ? " and model.decoder_layers" : "", layers)};
}

Verdict check_recomputed_layers(const Recipe& recipe, const Known&) {
  const auto named = std::ssize(recipe.memory.recompute_of_layers), layers = layer_count(recipe.model);
  if (named <= layers) return {};
  return Refusal{fmt::format("names layer {}", named - 1), fmt::format("the model has layers 0 to {}", layers - 1)};
}

Verdict check_limit(const Recipe& recipe, const Known&) {
  if (!recipe.memory.limit) return {};
  if (recipe.memory.recompute == Recompute::none && recipe.memory.recompute_of_layers.empty()) return {};
  return Refusal{"a limit beside memory.recompute",
                 "must choose alone what layers recompute; leave one of the two out"};
}

Verdict check_chunks(const Recipe& recipe, const Known&) {
  if (recipe.memory.chunks == 1 || has_bodies(recipe.model.architecture)) return {};
  return Refusal{
      std::to_string(recipe.memory.chunks),
      "must be 1 for decoders, whose blocks are fixed programs; their head computes logits in pieces anyway"};
}

}  // namespace

// A rule also lists the keys that decide the defaults of those it reads: an error there would make its verdict
// meaningless.
std::vector<Rule> layout_rules() {
  return {
      {"/parallel/tensor", {"/model/heads"}, check_heads},
      {"/parallel/tensor", {"/model/heads", "/model/kv_heads"}, check_kv_heads},
      {"/parallel/tensor", {"/model/ffn_hidden_size", "/model/hidden_size", "/model/architecture"}, check_ffn},
      {"/parallel/tensor",
       {"/model/moe/experts", "/model/moe/shared_experts", "/model/moe/ffn_hidden_size", "/model/ffn_hidden_size",
        "/model/hidden_size", "/model/architecture"},
       check_shared_ffn},
      {"/batch/sequence_length",
       {"/model/max_sequence_length", "/model/moe/experts", "/parallel/tensor", "/parallel/sequence",
        "/parallel/context"},
       check_sequence},
      {"/memory/recompute", {"/model/layers", "/model/decoder_layers"}, check_recomputed_layers},
      {"/memory/limit", {"/memory/recompute"}, check_limit},
      {"/memory/chunks", {"/model/architecture"}, check_chunks},
      {"/parallel/expert", {"/model/moe/experts"}, check_no_experts},
      {"/parallel/expert",
       {"/model/moe/experts", "/parallel/tensor", "/parallel/context", "/parallel/expert_tensor",
        "/parallel/expert_slices", "/parallel/data", "/launch/ranks", "/cluster/nodes"},
       check_experts},
      {"/parallel/expert_overlap", {"/parallel/expert"}, check_expert_overlap},
      {"/parallel/expert_all_to_all", {"/parallel/expert"}, check_all_to_all},
      {"/parallel/expert_tensor",
       {"/model/moe/experts", "/parallel/tensor", "/parallel/context", "/parallel/data", "/launch/ranks",
        "/cluster/nodes"},
       check_expert_ranks},
      {"/parallel/expert_tensor",
       {"/parallel/tensor", "/model/moe/ffn_hidden_size", "/model/ffn_hidden_size", "/model/hidden_size",
        "/model/architecture"},
       check_expert_ffn},
      {"/parallel/expert_tensor",
       {"/model/moe/experts", "/parallel/tensor", "/parallel/expert_slices", "/data/curriculum/sequence_length",
        "/batch/growth", "/training/token_dropping"},
       check_automatic_split},
      {"/parallel/expert_slices",
       {"/model/moe/experts", "/parallel/tensor", "/parallel/expert_tensor", "/parallel/zero_stage"},
       check_expert_slices},
      {"/parallel/expert_slices",
       {"/model/moe/experts", "/parallel/tensor", "/parallel/context", "/parallel/data", "/launch/ranks",
        "/cluster/nodes"},
       check_slice_ranks},
      {"/parallel/expert_slices",
       {"/model/moe/ffn_hidden_size", "/model/ffn_hidden_size", "/model/hidden_size", "/model/architecture"},
       check_slice_ffn},
      {"/parallel/zero_shard_ranks", {"/parallel/data", "/launch/ranks", "/cluster/nodes"}, check_shards},
  };
}

std::vector<Rule> stated_world_rules() {
  return {
      {"/parallel/expert",
       keys_of_stated_world({"/model/moe/experts", "/parallel/expert_tensor", "/parallel/expert_slices"}),
       in_stated_world<check_experts>},
      {"/parallel/expert_tensor", keys_of_stated_world({"/model/moe/experts"}), in_stated_world<check_expert_ranks>},
      {"/parallel/expert_slices", keys_of_stated_world({"/model/moe/experts"}), in_stated_world<check_slice_ranks>},
      {"/parallel/zero_shard_ranks", keys_of_stated_world({}), in_stated_world<check_shards>},
  };
}

std::vector<Rule> pipeline_rules() {
  const std::vector<std::string_view> stages = {"/model/layers",      "/model/decoder_layers",
                                                "/parallel/pipeline", "/parallel/zero_stage",
                                                "/pipeline/loops",    "/training/update_in_backward"};
  return {
      {"/pipeline/loops", {"/pipeline/schedule", "/parallel/pipeline", "/training/update_in_backward"}, check_loops},
      {"/pipeline/balance", stages, check_balance},
      {"/pipeline/balance", stages, check_listed_balance},
  };
}

}  // namespace llmtrain
