// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/progress_lines.h"
#include "core/data/samples/dataset.h"
#include "core/tokenizer/open_tokenizer.h"
#include "kernels/separate_rows.h"
#include "parallel/engine/generation/exactness.h"
#include "parallel/engine/targets/written_targets.h"
#include "parallel/runtime/inference/inference_requests.h"
#include "parallel/runtime/inference/measured_loss.h"
#include "parallel/runtime/loaded_model.h"

namespace llmtrain {
namespace {

bool is_mark(const DocumentMarks& marks, std::int64_t id) {
  return std::ranges::count(marks.begin, id) + std::ranges::count(marks.end, id) > 0;
}

// Bytes of text that the evaluated tokens stand for; marks of documents stand for none. Nothing where the tokenizer
// cannot tell: SentencePiece's tokens have other text at a document's beginning, a file of tokens may have been
// made by another tokenizer, and a conversation's marks are no text; or where not all of the text is predicted.
std::optional<double> evaluated_bytes(const Dataset& dataset, const Recipe& recipe, std::int64_t tokens) {
  if (recipe.data.tokenizer.kind == TokenizerKind::sentencepiece || recipe.data.fine_tuning || recipe.data.masking ||
      recipe.data.labels || recipe.data.spans || recipe.data.pairs || recipe.data.denoising || recipe.data.images)
    return std::nullopt;
  const auto tokenizer = open_tokenizer(recipe.data.tokenizer, recipe.model.vocab_size);
  const std::int64_t length = recipe.batch.sequence_length;
  std::size_t bytes = 0;
  std::vector<std::int64_t> targets(static_cast<std::size_t>(length)), of_text;
  FieldMemory memory;
  memory.set(BatchField::targets, std::span(targets));
  for (std::int64_t i = 0; i < tokens / length; ++i) {
    dataset.read(i, memory);
    of_text.clear();
    for (const std::int64_t id : targets) {
      if (id >= tokenizer->vocab_size()) return std::nullopt;
      if (!is_mark(tokenizer->marks(), id)) of_text.push_back(id);
    }
    bytes += tokenizer->decode(of_text).size();
  }
  return static_cast<double>(bytes);
}

// What targets are written for, if any are: those of pairs.
std::optional<GenerationRecipe> generation_of(const EvaluateRequest& request) {
  if (!request.recipe.data.pairs) return std::nullopt;
  GenerationRecipe generation = request.recipe.training.generation.value_or(GenerationRecipe());
  generation.samples = request.targets.value_or(generation.samples);
  return generation.samples > 0 ? std::optional(generation) : std::nullopt;
}

// The loss, and figures of targets that the model writes.
Evaluation measured_packed(LocalModel& model, const Dataset& data, std::int64_t samples,
                           const std::optional<GenerationRecipe>& generation) {
  Evaluation evaluation = evaluate_with_lines(model, data, samples, ExpertDrops::beyond_capacity);
  if (!generation) return evaluation;
  ProgressLines lines("writing targets");
  const std::int64_t most = samples == 0 ? data.samples() : std::min(samples, data.samples());
  const auto show = [&](double share) {
    if (model.groups().is_first()) lines.show(share);
    return false;
  };
  evaluation.figures = written_target_figures(model, data, most, *generation, show).value();
  return evaluation;
}

}  // namespace

void warn_of_left_out(const LeftOut& left_out, const EvaluationData& data, std::int64_t sequence_length) {
  for (const std::string& sentence : sentences_of(left_out, sequence_length)) log().warn("{}: {}", data.role, sentence);
}

Evaluation evaluate_with_lines(LocalModel& model, const SampleSource& samples, std::int64_t count, ExpertDrops drops) {
  const bool is_first = model.groups().is_first();
  ProgressLines lines("evaluating");
  const auto show = [&](double share) {
    if (is_first) lines.show(share);
    return false;
  };
  return evaluate(model, samples, count, show, drops).value();
}

EvaluateResult result_of(const Evaluation& evaluation, const EvaluateRequest& request) {
  if (!std::isfinite(evaluation.loss))
    throw Error(ExitCode::bad_data, request.checkpoint +
                                        ": the model's loss is not finite: its weights have diverged, "
                                        "use an earlier checkpoint");
  EvaluateResult result;
  result.loss = evaluation.loss;
  result.tokens = evaluation.tokens;
  result.figures = evaluation.figures;
  if (!request.recipe.model.classifier) result.perplexity = std::exp(evaluation.terms.front().value);
  if (evaluation.terms.size() > 1) result.terms = evaluation.terms;
  return result;
}

std::vector<EvaluateResult> evaluate_packed(const EvaluateRequest& request, std::span<const std::size_t> places) {
  const Recipe& recipe = request.recipe;
  const std::int64_t length = recipe.batch.sequence_length;
  const std::optional<GenerationRecipe> generation = generation_of(request);
  std::vector<Dataset> datasets;
  for (const std::size_t place : places) {
    const EvaluationData& data = request.data[place];
    TextFormat format = text_format(recipe);
    format.first_source = data.first_source;
    format.draws = SampleDraws::fixed;
    format.keeps_targets = generation.has_value();
    datasets.emplace_back(data.sources, format, length, recipe.model.vocab_size, false, recipe.seed, data.role);
    for (const LeftOut& left_out : datasets.back().left_out()) warn_of_left_out(left_out, data, length);
  }
  std::vector<Evaluation> evaluations(datasets.size());
  const std::int64_t step =
      with_loaded_model(recipe, request.checkpoint, request.ranks, request.memory, [&](LocalModel& model) {
        if (request.is_exact) require_exactness(model, "--exact");
        const kernels::SeparateRows separate(request.is_exact);
        for (std::size_t i = 0; i < datasets.size(); ++i) {
          const Evaluation own = measured_packed(model, datasets[i], request.batches * recipe.batch.global, generation);
          // All ranks have the same result; one of them stores it.
          if (model.groups().is_first()) evaluations[i] = own;
        }
      });
  std::vector<EvaluateResult> results;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const Evaluation& evaluation = evaluations[i];
    EvaluateResult& result = results.emplace_back(result_of(evaluation, request));
    result.step = step;
    if (const auto bytes = evaluated_bytes(datasets[i], recipe, evaluation.tokens))
      result.bits_per_byte =
          evaluation.terms.front().value * static_cast<double>(evaluation.tokens) / *bytes / std::numbers::ln2;
  }
  return results;
}

std::vector<EvaluateResult> evaluate_checkpoint(const EvaluateRequest& request) {
  std::vector<EvaluateResult> results(request.data.size());
  // Each method shapes batches in its way, for which the model is loaded.
  for (const EvaluationMethod method : {EvaluationMethod::rolling, EvaluationMethod::packed}) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < results.size(); ++i)
      if (request.data[i].method == method) places.push_back(i);
    if (places.empty()) continue;
    const auto found =
        method == EvaluationMethod::rolling ? evaluate_texts(request, places) : evaluate_packed(request, places);
    for (std::size_t i = 0; i < places.size(); ++i) results[places[i]] = found[i];
  }
  return results;
}

}  // namespace llmtrain
