// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <numeric>

#include "core/recipe/hints.h"
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

Verdict check_sequence(const Recipe& recipe, const Known&) {
  const auto& parallel = recipe.parallel;
  // Context ranks split each sequence, and sequence parallelism splits each of these parts again.
  const bool splits = parallel.sequence && parallel.tensor > 1;
  return must_be_multiple(
      recipe.batch.sequence_length, parallel.context * (splits ? parallel.tensor : 1),
      splits ? "parallel.context × parallel.tensor, as parallel.sequence splits it" : "parallel.context");
}

Verdict check_no_experts(const Recipe& recipe, const Known&) {
  if (recipe.model.moe || recipe.parallel.expert == 1) return {};
  return Refusal{std::to_string(recipe.parallel.expert) + " ranks have no experts to split",
                 "must be 1 without model.moe", "1"};
}

Verdict check_experts(const Recipe& recipe, const Known& known) {
  if (!recipe.model.moe) return {};
  const auto ranks = recipe.parallel.expert, experts = recipe.model.moe->experts;
  const auto data = data_ranks(recipe, known);
  // Expert ranks are taken from the data ranks, so their number must divide both; the hint is a divisor of both.
  const auto whole = std::gcd(experts, data.value_or(experts));
  if (whole % ranks == 0) return {};
  return Refusal{fmt::format("{} does not divide {} experts", ranks, experts) +
                     (data ? fmt::format(" and {} data ranks", *data) : ""),
                 std::string("must divide model.moe.experts") + (data ? " and parallel.data" : ""),
                 std::to_string(nearest_divisor(ranks, whole))};
}

Verdict check_expert_ranks(const Recipe& recipe, const Known&) {
  if (!recipe.model.moe) return {};
  return must_divide(recipe.parallel.expert_tensor, recipe.parallel.tensor, "parallel.tensor");
}

// As check_ffn, for the width of one expert and the ranks that split it.
Verdict check_expert_ffn(const Recipe& recipe, const Known&) {
  if (!recipe.model.moe) return {};
  return must_divide(recipe.parallel.expert_tensor, recipe.model.moe->ffn_hidden_size, "model.moe.ffn_hidden_size");
}

Verdict check_shards(const Recipe& recipe, const Known& known) {
  const auto& ranks = recipe.parallel.zero_shard_ranks;
  const auto data = data_ranks(recipe, known);
  // The degree is not known yet: the rule is checked again once the world is.
  if (!ranks || !data) return {};
  return must_divide(*ranks, *data, "parallel.data");
}

Verdict check_batch(const Recipe& recipe, const Known& known) {
  const auto& batch = recipe.batch;
  const auto& pipeline = recipe.pipeline;
  const auto data = data_ranks(recipe, known);
  const auto group = micro_batch_group(pipeline.schedule, recipe.parallel.pipeline, pipeline.loops);
  // A global batch is whole micro-batches on every replica, and for some schedules whole groups of them.
  const auto step = batch.micro * data.value_or(1) * group;
  if (batch.global % step == 0) return {};
  const auto grouped = fmt::format(" × parallel.pipeline, as {} needs micro-batches in multiples of the pipeline ranks",
                                   traits_of(pipeline.schedule).word);
  return must_be_multiple(batch.global, step,
                          std::string("batch.micro") + (data ? " × parallel.data" : "") + (group > 1 ? grouped : ""));
}

}  // namespace

// A rule also lists the keys that decide the defaults of those it reads: an error there would make its verdict
// meaningless.
std::vector<Rule> layout_rules() {
  return {
      {"/parallel/tensor", {"/model/heads"}, check_heads},
      {"/parallel/tensor", {"/model/heads", "/model/kv_heads"}, check_kv_heads},
      {"/parallel/tensor", {"/model/ffn_hidden_size", "/model/hidden_size", "/model/architecture"}, check_ffn},
      {"/batch/sequence_length",
       {"/model/max_sequence_length", "/parallel/tensor", "/parallel/sequence", "/parallel/context"},
       check_sequence},
      {"/parallel/expert", {"/model/moe/experts"}, check_no_experts},
      {"/parallel/expert", {"/model/moe/experts", "/parallel/data", "/launch/ranks", "/cluster/nodes"}, check_experts},
      {"/parallel/expert_tensor", {"/model/moe/experts", "/parallel/tensor"}, check_expert_ranks},
      {"/parallel/expert_tensor",
       {"/parallel/tensor", "/model/moe/ffn_hidden_size", "/model/ffn_hidden_size", "/model/hidden_size",
        "/model/architecture"},
       check_expert_ffn},
      {"/parallel/zero_shard_ranks", {"/parallel/data", "/launch/ranks", "/cluster/nodes"}, check_shards},
      {"/batch/global",
       {"/batch/micro", "/parallel/data", "/launch/ranks", "/cluster/nodes", "/pipeline/schedule", "/pipeline/loops",
        "/parallel/pipeline"},
       check_batch},
  };
}

}  // namespace llmtrain
