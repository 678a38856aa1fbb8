// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/recipe/rules.h"

namespace llmtrain {
namespace {

void check_heads(const RuleCheck& check) {
  const auto& model = check.recipe.model;
  if (check.are_clean({"/model/heads", "/model/kv_heads"})) {
    check.divisor("/model/kv_heads", model.kv_heads, model.heads, "model.heads");
  }
  if (!check.are_clean({"/model/heads", "/model/hidden_size", "/model/head_dim", "/model/position"})) return;
  const bool given = check.is_given("/model/head_dim");
  if (!given && model.hidden_size % model.heads != 0) {
    check.multiple("/model/hidden_size", model.hidden_size, model.heads, "model.heads, or give model.head_dim");
  } else if (model.position == Position::rope) {
    check.multiple("/model/head_dim", model.head_dim, 2, "2 where model.position is rope");
  }
}

void check_experts(const RuleCheck& check) {
  if (!check.recipe.model.moe) return;
  const auto& moe = *check.recipe.model.moe;
  if (check.are_clean({"/model/moe/experts", "/model/moe/top_k"}) && moe.top_k > moe.experts) {
    check.refuse("/model/moe/top_k", std::to_string(moe.top_k) + " is too large",
                 "must be at most model.moe.experts (" + std::to_string(moe.experts) + ")",
                 std::to_string(moe.experts));
  }
  const auto layers = check.recipe.model.layers;
  if (check.are_clean({"/model/layers", "/model/moe/every"}) && moe.every > layers) {
    check.refuse("/model/moe/every", std::to_string(moe.every) + " leaves no layer with experts",
                 "must be at most model.layers (" + std::to_string(layers) + ")", std::to_string(layers));
  }
}

void check_sequence_length(const RuleCheck& check) {
  if (!check.are_clean({"/model/max_sequence_length", "/batch/sequence_length"})) return;
  const auto longest = check.recipe.model.max_sequence_length;
  const auto length = check.recipe.batch.sequence_length;
  if (length <= longest) return;
  check.refuse("/batch/sequence_length", std::to_string(length) + " is too long",
               "must be at most model.max_sequence_length (" + std::to_string(longest) + ")", std::to_string(longest));
}

// Token files need no tokenizer, so that a model of fewer ids than bytes may read them.
void check_vocabulary(const RuleCheck& check) {
  constexpr std::int64_t bytes = 256;
  const auto& data = check.recipe.data;
  const auto is_text = [](const DataSource& source) { return !source.path.ends_with(".bin"); };
  const bool reads_text = std::any_of(data.train.begin(), data.train.end(), is_text) ||
                          std::any_of(data.validation.begin(), data.validation.end(), is_text);
  if (data.tokenizer.kind != TokenizerKind::bytes || !reads_text) return;
  if (!check.are_clean({"/model/vocab_size", "/data"}) || check.recipe.model.vocab_size >= bytes) return;
  check.refuse("/model/vocab_size", std::to_string(check.recipe.model.vocab_size) + " is too small",
               "data.tokenizer \"bytes\" needs at least 256", "256");
}

}  // namespace

void check_model_rules(const RuleCheck& check) {
  check_heads(check);
  check_experts(check);
  check_sequence_length(check);
  check_vocabulary(check);
}

}  // namespace llmtrain
