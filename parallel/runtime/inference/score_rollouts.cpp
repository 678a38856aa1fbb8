// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/model/moe/pass_routing.h"
#include "kernels/separate_rows.h"
#include "parallel/engine/generation/continuation_scores.h"
#include "parallel/engine/generation/exactness.h"
#include "parallel/runtime/inference/inference_requests.h"
#include "parallel/runtime/loaded_model.h"
#include "parallel/shard/rank_lead.h"

namespace llmtrain {
namespace {

std::vector<std::int64_t> tokens_of(const Rollout& rollout) {
  std::vector<std::int64_t> tokens = rollout.prompt;
  tokens.insert(tokens.end(), rollout.answer.begin(), rollout.answer.end());
  return tokens;
}

// What messages say of a text begins with its place.
template <class Work>
void at_place(const Rollout& rollout, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    throw Error(error.code(), rollout.place + ": " + error.what());
  }
}

}  // namespace

RolloutScores score_rollouts(const RolloutRequest& request) {
  const Graph graph = Graph::build(request.recipe.model);
  for (const Rollout& rollout : request.rollouts)
    at_place(rollout, [&] {
      const std::vector<std::int64_t> tokens = tokens_of(rollout);
      require_text(graph, tokens, request.ranks.tensor);
      if (!rollout.experts.empty()) require_routing(graph, rollout.experts, std::ssize(tokens) - 1);
    });
  RolloutScores result;
  const auto score = [&](LocalModel& model) {
    if (request.is_exact) require_exactness(model, "--exact");
    const bool leads = RankLead(model.groups()).leads();
    const kernels::SeparateRows separate(request.is_exact);
    for (const Rollout& rollout : request.rollouts) {
      const std::vector<double> all = log_probabilities_of(model, tokens_of(rollout), rollout.experts);
      if (leads) result.log_probabilities.emplace_back(all.end() - std::ssize(rollout.answer), all.end());
    }
  };
  result.step = with_loaded_model(request.recipe, request.checkpoint, request.ranks, request.memory, score);
  return result;
}

}  // namespace llmtrain
