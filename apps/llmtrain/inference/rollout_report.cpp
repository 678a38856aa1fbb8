// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/rollout_report.h"

#include <spdlog/fmt/fmt.h>

#include <cstddef>
#include <nlohmann/json.hpp>

namespace llmtrain::app {
namespace {

struct AnswerTokens {
  std::size_t count = 0;
  double loss = 0;  // nats per token
};

AnswerTokens tokens_of(const RolloutScores& scores) {
  AnswerTokens tokens;
  for (const auto& answer : scores.log_probabilities)
    for (const double log_probability : answer) {
      ++tokens.count;
      tokens.loss -= log_probability;
    }
  tokens.loss /= static_cast<double>(tokens.count);
  return tokens;
}

}  // namespace

std::string rollouts_as_text(const std::string& checkpoint, const RolloutScores& scores) {
  const auto [count, loss] = tokens_of(scores);
  return fmt::format("checkpoint  {}\nstep        {}\nrollouts    {}\ntokens      {}\nloss        {:.6f}\n", checkpoint,
                     scores.step, scores.log_probabilities.size(), count, loss);
}

std::string rollouts_as_json(const std::string& checkpoint, const RolloutScores& scores) {
  const auto [count, loss] = tokens_of(scores);
  const nlohmann::ordered_json json = {
      {"checkpoint", checkpoint}, {"step", scores.step}, {"rollouts", scores.log_probabilities.size()},
      {"tokens", count},          {"loss", loss},        {"log_probabilities", scores.log_probabilities}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace llmtrain::app
