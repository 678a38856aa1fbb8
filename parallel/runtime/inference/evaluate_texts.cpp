// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/data/rolling/rolling_samples.h"
#include "core/data/rolling/rolling_texts.h"
#include "kernels/separate_rows.h"
#include "parallel/engine/generation/exactness.h"
#include "parallel/runtime/inference/measured_loss.h"
#include "parallel/runtime/loaded_model.h"

namespace llmtrain {
namespace {

std::int64_t window_of(const EvaluateRequest& request) {
  const std::int64_t most = request.recipe.model.max_sequence_length;
  if (request.window <= most) return request.window == 0 ? most : request.window;
  throw Error(ExitCode::bad_recipe,
              "--window: " + std::to_string(request.window) +
                  " is more than the model takes; must be at most model.max_sequence_length = " + std::to_string(most));
}

// The rows of a sample: of the longest window, in such a number that tensor ranks can share them.
std::int64_t rows_of_sample(const std::vector<RollingTexts>& data, std::int64_t tensor_ranks) {
  std::int64_t longest = 1;
  for (const RollingTexts& texts : data) longest = std::max(longest, texts.longest_window());
  return (longest + tensor_ranks - 1) / tensor_ranks * tensor_ranks;
}

// The recipe for samples of so many rows, of which a micro-batch has about as many as before. What shapes samples in
// training alone must not stand in their way.
Recipe with_samples_of(std::int64_t rows, Recipe recipe) {
  recipe.batch.micro = std::max<std::int64_t>(1, recipe.batch.micro * recipe.batch.sequence_length / rows);
  recipe.batch.sequence_length = std::min(rows, recipe.model.max_sequence_length);
  recipe.data.curriculum = {};
  recipe.training.token_dropping = std::nullopt;
  return recipe;
}

EvaluateResult result_of_texts(const RollingTexts& texts, const std::optional<Evaluation>& evaluation,
                               const EvaluateRequest& request) {
  const auto& [count, words, bytes, tokens] = texts.counts();
  EvaluateResult result;
  result.texts = {count, words, bytes, 0};
  if (!evaluation) return result;
  result = result_of(*evaluation, request);
  const double log_likelihood = -evaluation->terms.front().value * static_cast<double>(tokens);
  result.texts = {count, words, bytes, log_likelihood};
  if (bytes > 0) result.bits_per_byte = -log_likelihood / static_cast<double>(bytes) / std::numbers::ln2;
  return result;
}

}  // namespace

std::vector<EvaluateResult> evaluate_texts(const EvaluateRequest& request, std::span<const std::size_t> places) {
  const std::int64_t window = window_of(request);
  std::vector<RollingTexts> data;
  for (const std::size_t place : places) {
    const EvaluationData& named = request.data[place];
    data.emplace_back(named.sources, request.recipe, window, named.role, named.first_source);
    warn_of_left_out({data.back().bad_lines()}, named, window);
    if (data.back().counts().tokens == 0) log().warn("{}: {} has no token to score", named.role, named.name);
  }
  const std::int64_t rows = rows_of_sample(data, request.ranks.tensor);
  std::vector<std::optional<Evaluation>> evaluations(data.size());
  const auto evaluate_all = [&](LocalModel& model) {
    if (request.is_exact) require_exactness(model, "--exact");
    const kernels::SeparateRows separate(request.is_exact);
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (data[i].windows().empty()) continue;
      const Evaluation own = evaluate_with_lines(model, RollingSamples(data[i], rows), 0, ExpertDrops::none);
      // All ranks have the same result; one of them stores it.
      if (model.groups().is_first()) evaluations[i] = own;
    }
  };
  const std::int64_t step = with_loaded_model(with_samples_of(rows, request.recipe), request.checkpoint, request.ranks,
                                              request.memory, evaluate_all);
  std::vector<EvaluateResult> results;
  for (std::size_t i = 0; i < data.size(); ++i) {
    results.push_back(result_of_texts(data[i], evaluations[i], request));
    results.back().step = step;
  }
  return results;
}

}  // namespace llmtrain
