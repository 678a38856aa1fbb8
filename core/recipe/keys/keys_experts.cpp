// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string_view>

#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 2> router_words = {"linear", "cosine"};
constexpr std::array<std::string_view, 2> score_function_words = {"softmax", "sigmoid"};
constexpr std::array<std::string_view, 2> priority_words = {"position", "score"};
constexpr std::array<std::string_view, 3> balance_loss_words = {"gshard", "load_importance", "none"};

// Further ways to choose experts, which are planned.
void describe_choice(KeyVisitor& keys, MixtureOfExpertsRecipe& moe) {
  keys.boolean({"router_bias", "The linear router has a bias, as in GPT-OSS. Planned, not run."}, moe.router_bias);
  keys.choice(
      {"score_function", "What makes scores of a router's logits: sigmoid as in DeepSeek-V3. Planned, not run."},
      moe.score_function, score_function_words);
  keys.boolean({"selection_bias",
                "Experts are chosen by scores with a bias that follows their load, without a loss for it, as in "
                "DeepSeek-V3. Planned, not run."},
               moe.selection_bias);
  keys.integer({"groups", "Equal groups of consecutive experts."}, moe.groups, head_range);
  keys.integer({"top_groups",
                "Groups with the best scores, from which a token's experts are chosen; fewer than groups limits the "
                "nodes that it is sent to. Planned, not run.",
                "groups"},
               keys.otherwise(moe.top_groups, moe.groups), head_range);
  keys.number({"gate_scale", "Factor of a token's gates; other than 1 planned, not run."}, moe.gate_scale,
              {0, 1e6, RangeEnds::open_minimum});
}

}  // namespace

void describe_experts(KeyVisitor& keys, MixtureOfExpertsRecipe& moe, const ModelRecipe& model) {
  keys.integer({"experts", "Routed experts per layer.", "", Presence::required}, moe.experts, head_range);
  keys.integer({"top_k", "Experts that each token is routed to."}, moe.top_k, head_range);
  keys.integer({"every", "Interval of layers with experts: 1 gives all layers experts, 2 every second one."}, moe.every,
               layer_range);
  keys.integer({"dense_layers", "Leading layers that are dense, whatever the interval says."}, moe.dense_layers,
               {0, layer_range.maximum});
  keys.number({"capacity_factor",
               "Above 0: an expert's capacity is this multiple of its even share of tokens, and the rest are dropped; "
               "0: no token is dropped; below 0: none is dropped up to that multiple of the even share."},
              moe.capacity_factor, {-1e6, 1e6});
  keys.integer({"ffn_hidden_size", "Inner width of one expert.", "model.ffn_hidden_size"},
               keys.otherwise(moe.ffn_hidden_size, model.ffn_hidden_size), ffn_range);
  keys.integer({"shared_experts", "Experts that process every token."}, moe.shared_experts, {0, 1 << 10});
  keys.boolean(
      {"shared_gate", "The shared experts' output is multiplied by the sigmoid of a linear gate, as in Qwen2-MoE."},
      moe.shared_gate);
  keys.choice({"router", "How the router scores tokens."}, moe.router, router_words);
  describe_choice(keys, moe);
  keys.boolean(
      {"normalize_gates",
       "A token's gates, the softmax over all experts of those that it is routed to, are divided by their sum.",
       "top_k > 1"},
      keys.otherwise(moe.normalize_gates, moe.top_k > 1));
  keys.choice({"priority", "Which tokens get an expert's capacity first: earlier ones, or those with higher scores."},
              moe.priority, priority_words);
  keys.choice({"balance_loss", "Auxiliary loss that balances tokens over experts."}, moe.balance_loss,
              balance_loss_words);
  keys.number({"balance_coefficient", "Coefficient of the balance loss."}, moe.balance_coefficient, {0, 1e6});
  keys.number({"z_coefficient", "Coefficient of the router's z-loss; 0: off."}, moe.z_coefficient, {0, 1e6});
  keys.number({"jitter", "Router inputs are scaled by a random factor within 1 ± jitter in training; 0: off."},
              moe.jitter, {0, 1, RangeEnds::open_maximum});
  const double noise = moe.balance_loss == BalanceLoss::load_importance ? 1 : 0;
  keys.number({"gate_noise",
               "Standard deviation, times the number of experts, of normal noise that a router's logits get in "
               "training; 0: none.",
               "1 with balance_loss \"load_importance\", else 0"},
              keys.otherwise(moe.gate_noise, noise), {0, 1e6});
  keys.nullable_number({"routing_zipf",
                        "Tokens choose expert i (from 1) with a frequency of 1 / i to this power, whatever the "
                        "routers say: what plan prices and run measures. 0: even; null: the routers decide."},
                       moe.routing_zipf, {0, 100});
  keys.nullable_text({"routing_trace",
                      "A run's routing.jsonl (log.routing), which tokens follow, step by step and layer by layer, "
                      "whatever the routers say."},
                     moe.routing_trace, {TextKind::path});
}

}  // namespace llmtrain
