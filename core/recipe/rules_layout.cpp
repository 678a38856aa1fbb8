// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/rules.h"

namespace llmtrain {
namespace {

void check_tensor(const RuleCheck& check) {
  const auto& model = check.recipe.model;
  const auto tensor = check.recipe.parallel.tensor;
  const std::string pointer = "/parallel/tensor";
  if (!check.are_clean({pointer, "/model/heads", "/model/kv_heads", "/model/ffn_hidden_size", "/model/hidden_size",
                        "/model/architecture"})) {
    return;
  }
  if (model.heads % tensor != 0) {
    check.divisor(pointer, tensor, model.heads, "model.heads");
  } else if (tensor % model.kv_heads != 0 && model.kv_heads % tensor != 0) {
    check.divisor(pointer, tensor, model.kv_heads, "model.kv_heads, or be a multiple of it");
  } else {
    check.divisor(pointer, tensor, model.ffn_hidden_size, "model.ffn_hidden_size");
  }
}

void check_sequence_split(const RuleCheck& check) {
  const auto& parallel = check.recipe.parallel;
  if (!check.are_clean({"/batch/sequence_length", "/model/max_sequence_length", "/parallel/tensor",
                        "/parallel/sequence", "/parallel/context"})) {
    return;
  }
  const auto parts = parallel.context * (parallel.sequence ? parallel.tensor : 1);
  check.multiple("/batch/sequence_length", check.recipe.batch.sequence_length, parts,
                 parallel.sequence && parallel.tensor > 1
                     ? "parallel.context × parallel.tensor, as parallel.sequence splits it"
                     : "parallel.context");
}

void check_expert_ranks(const RuleCheck& check) {
  const auto& parallel = check.recipe.parallel;
  const auto& moe = check.recipe.model.moe;
  const std::string pointer = "/parallel/expert";
  if (!check.are_clean({pointer, "/model/moe/experts"})) return;
  if (!moe) {
    if (parallel.expert == 1) return;
    return check.refuse(pointer, std::to_string(parallel.expert) + " ranks have no experts to split",
                        "must be 1 without model.moe", "1");
  }
  if (moe->experts % parallel.expert != 0) {
    check.divisor(pointer, parallel.expert, moe->experts, "model.moe.experts");
  } else if (parallel.data && check.are_clean({"/parallel/data"})) {
    check.divisor(pointer, parallel.expert, *parallel.data, "parallel.data");
  }
}

void check_expert_split(const RuleCheck& check) {
  const auto& moe = check.recipe.model.moe;
  if (!moe || !check.are_clean({"/parallel/expert_tensor", "/parallel/tensor", "/model/moe/ffn_hidden_size",
                                "/model/ffn_hidden_size", "/model/hidden_size", "/model/architecture"})) {
    return;
  }
  check.divisor("/parallel/expert_tensor", check.recipe.parallel.expert_tensor, moe->ffn_hidden_size,
                "model.moe.ffn_hidden_size");
}

void check_data_ranks(const RuleCheck& check) {
  const auto& data = check.recipe.parallel.data;
  const auto& shard_ranks = check.recipe.parallel.zero_shard_ranks;
  if (data && shard_ranks && check.are_clean({"/parallel/data", "/parallel/zero_shard_ranks"})) {
    check.divisor("/parallel/zero_shard_ranks", *shard_ranks, *data, "parallel.data");
  }
  if (!check.are_clean({"/batch/global", "/batch/micro", "/parallel/data"})) return;
  const auto& batch = check.recipe.batch;
  check.multiple("/batch/global", batch.global, batch.micro * data.value_or(1),
                 data ? "batch.micro × parallel.data" : "batch.micro");
}

void check_world(const RuleCheck& check) {
  constexpr double most_ranks = 1 << 24;
  const auto& parallel = check.recipe.parallel;
  if (!check.are_clean({"/parallel/tensor", "/parallel/pipeline", "/parallel/context", "/parallel/data"})) return;
  const auto world = static_cast<double>(parallel.tensor) * static_cast<double>(parallel.pipeline) *
                     static_cast<double>(parallel.context) * static_cast<double>(parallel.data.value_or(1));
  if (world > most_ranks) {
    return check.refuse("/parallel", "asks for more than 2^24 ranks",
                        "tensor × pipeline × context × data must be at most 16777216");
  }
  const auto& ranks = check.recipe.launch.ranks;
  if (!ranks || !check.are_clean({"/launch/ranks"})) return;
  const auto product = static_cast<std::int64_t>(world);
  if (!parallel.data) {
    check.multiple("/launch/ranks", *ranks, product, "parallel.tensor × pipeline × context");
  } else if (*ranks != product) {
    check.refuse("/launch/ranks", std::to_string(*ranks) + " disagrees with parallel",
                 "must be tensor × pipeline × context × data", std::to_string(product));
  }
}

}  // namespace

void check_layout_rules(const RuleCheck& check) {
  check_tensor(check);
  check_sequence_split(check);
  check_expert_ranks(check);
  check_expert_split(check);
  check_data_ranks(check);
  check_world(check);
}

}  // namespace llmtrain
