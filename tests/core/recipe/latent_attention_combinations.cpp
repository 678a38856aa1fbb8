// SPDX-License-Identifier: Apache-2.0
#include "tests/core/recipe/bad_combinations.h"

namespace llmtrain::test {
namespace {

// A model with latent attention and further keys.
std::string latent_model(const std::string& keys, const std::string& sizes = R"("rope_head_dim": 8)") {
  return R"({"model": {"position": "rope", "qkv_bias": false, "latent_attention": {"key_value_rank": 16,
    "nope_head_dim": 16, "value_head_dim": 12, )" +
         sizes + "}" + keys + "}}";
}

}  // namespace

std::vector<Combination> latent_attention_combinations() {
  return {
      {latent_model(""), "", {}},
      // hidden_size / heads is no head's dimension here.
      {latent_model(R"(, "heads": 6)"), "", {}},
      {latent_model(R"(, "head_dim": 24)"), "", {}},
      {latent_model(R"(, "head_dim": 8)"), "/model/head_dim", {"8 is another size", "(24)", "did you mean 24?"}},
      {latent_model(R"(, "kv_heads": 2)"), "/model/kv_heads", {"2 groups heads", "did you mean 8?"}},
      {latent_model(R"(, "qk_norm": true)"), "/model/qk_norm", {"did you mean false?"}},
      {latent_model(R"(, "qkv_bias": true)"), "/model/qkv_bias", {"did you mean false?"}},
      {latent_model(R"(, "position": "learned")"), "/model/latent_attention", {"model.position", "did you mean null?"}},
      {latent_model("", R"("rope_head_dim": 7)"), "/model/latent_attention/rope_head_dim", {"7 is not a multiple"}},
      {latent_model("", R"("rope_head_dim": 8, "query_rank": 32)"), "", {}},
  };
}

std::vector<Combination> window_combinations() {
  return {
      {R"({"model": {"sliding_window": {"tokens": 32}}})", "", {}},
      {R"({"model": {"sliding_window": {"tokens": 32, "global_every": 4}}})", "", {}},
      {R"({"model": {"sliding_window": {"tokens": 32, "global_every": 5}}})",
       "/model/sliding_window/global_every",
       {"5 leaves no global layer", "model.layers (4)", "did you mean 0?"}},
      {R"({"model": {"sliding_window": {}}})", "/model/sliding_window/tokens", {"is missing"}},
      {R"({"model": {"sliding_window": {"tokens": 0}}})", "/model/sliding_window/tokens", {}},
  };
}

std::vector<Combination> residual_combinations() {
  return {
      {R"({"model": {"parallel_residual": "one_norm", "attention_sinks": true}})", "", {}},
      {R"({"model": {"post_norms": true, "attention_scale": 0.1, "embedding_scale": 8}})", "", {}},
      {R"({"model": {"parallel_residual": "two_norms", "moe": {"experts": 8}}})",
       "/model/parallel_residual",
       {"model.moe", "did you mean \"none\"?"}},
      {R"({"model": {"parallel_residual": "two_norms", "post_norms": true}})",
       "/model/post_norms",
       {"model.parallel_residual", "did you mean false?"}},
      {R"({"model": {"attention_scale": 0}})", "/model/attention_scale", {}},
  };
}

std::vector<Combination> prediction_combinations() {
  const std::string pointer = "/model/multi_token_prediction";
  return {
      {R"({"model": {"multi_token_prediction": {}}})", "", {}},
      {R"({"model": {"multi_token_prediction": {"depth": 2, "coefficient": 0.1}}})", "", {}},
      {R"({"model": {"multi_token_prediction": {"depth": 0}}})", pointer + "/depth", {}},
      {R"({"model": {"multi_token_prediction": {}, "lora": {}}})", pointer, {"model.lora", "did you mean null?"}},
      {R"({"model": {"multi_token_prediction": {}, "moe": {"experts": 8, "routing_zipf": 1}}})",
       pointer,
       {"a replayed routing"}},
      {R"({"model": {"multi_token_prediction": {}}, "training": {"token_dropping": {"start": 64, "steps": 10,
          "multiple": 32, "first_layers": 1, "last_layers": 1}}})",
       pointer,
       {"training.token_dropping"}},
  };
}

std::vector<Combination> router_combinations() {
  return {
      {R"({"model": {"moe": {"experts": 8, "dense_layers": 3}}})", "", {}},
      {R"({"model": {"moe": {"experts": 8, "dense_layers": 4}}})",
       "/model/moe/dense_layers",
       {"4 leaves no layer with experts", "did you mean 3?"}},
      {R"({"model": {"layers": 5, "moe": {"experts": 8, "every": 2, "dense_layers": 4}}})",
       "/model/moe/dense_layers",
       {"last layer with experts (4", "did you mean 3?"}},
      {R"({"model": {"moe": {"experts": 8, "groups": 3}}})", "/model/moe/groups", {"did you mean 2?"}},
      {R"({"model": {"moe": {"experts": 8, "groups": 2, "top_groups": 3}}})",
       "/model/moe/top_groups",
       {"3 is too large", "did you mean 2?"}},
      {R"({"model": {"moe": {"experts": 8, "top_k": 3, "groups": 4, "top_groups": 1}}})",
       "/model/moe/top_groups",
       {"fewer experts than a token is sent to", "model.moe.top_k (3)", "did you mean 4?"}},
      {R"({"model": {"moe": {"experts": 8, "router": "cosine", "router_bias": true}}})",
       "/model/moe/router_bias",
       {"no cosine", "did you mean false?"}},
      {R"({"model": {"moe": {"experts": 8, "balance_loss": "load_importance", "score_function": "sigmoid"}}})",
       "/model/moe/score_function",
       {"no load-importance loss"}},
  };
}

}  // namespace llmtrain::test
