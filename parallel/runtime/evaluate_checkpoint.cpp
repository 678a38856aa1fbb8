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
#include "parallel/engine/generation/continuation_scores.h"
#include "parallel/engine/inference.h"
#include "parallel/runtime/inference_requests.h"
#include "parallel/runtime/loaded_model.h"

namespace llmtrain {
namespace {

struct EvaluationData {
  std::vector<DataSource> sources;
  std::string role;  // what names them, in messages
};

// The data to evaluate: the file that the caller names, else the recipe's validation data, else its training data.
EvaluationData evaluation_data(const EvaluateRequest& request) {
  if (request.data) return {{*request.data}, "--data"};
  const DataRecipe& data = request.recipe.data;
  if (!data.validation.empty()) return {data.validation, "/data/validation"};
  if (data.train.empty())
    throw Error(ExitCode::missing_input,
                request.checkpoint + ": its recipe names no data; name a file, folder or glob with --data");
  log().warn("the recipe has no data.validation: this evaluates the data that the model was trained on");
  return {data.train, "/data/train"};
}

bool is_mark(const DocumentMarks& marks, std::int64_t id) {
  return std::ranges::count(marks.begin, id) + std::ranges::count(marks.end, id) > 0;
}

// Bytes of text that the evaluated tokens stand for; marks of documents stand for none. Nothing where the tokenizer
// cannot tell: SentencePiece's tokens have other text at a document's beginning, a file of tokens may have been
// made by another tokenizer, and a conversation's marks are no text.
std::optional<double> evaluated_bytes(const Dataset& dataset, const EvaluateRequest& request, std::int64_t tokens) {
  const Recipe& recipe = request.recipe;
  if (recipe.data.tokenizer.kind == TokenizerKind::sentencepiece || recipe.data.fine_tuning) return std::nullopt;
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

// The tokens of the context, and those that the choice adds to it. As in lm-evaluation-harness (TemplateLM's
// _encode_pair) both are tokenised together, and white space at the context's end count to the choice, because
// tokenizers join them with the word that follows.
ScoredText scored_text(const Tokenizer& tokenizer, const std::string& context, const std::string& choice) {
  const std::size_t end = context.find_last_not_of(" \t\n\v\f\r") + 1;
  const std::vector<std::int64_t> before = encode_prompt(tokenizer, context.substr(0, end));
  return {encode_prompt(tokenizer, context + choice), static_cast<std::int64_t>(before.size())};
}

std::vector<std::vector<ScoredText>> scored_texts(const ScoreRequest& request) {
  const auto tokenizer = open_tokenizer(request.recipe.data.tokenizer, request.recipe.model.vocab_size);
  std::vector<std::vector<ScoredText>> questions;
  const std::int64_t window = request.recipe.model.max_sequence_length;
  for (const ChoiceQuestion& question : request.questions) {
    std::vector<ScoredText>& texts = questions.emplace_back();
    for (const std::string& choice : question.choices) {
      texts.push_back(scored_text(*tokenizer, question.context, choice));
      const std::int64_t scored = static_cast<std::int64_t>(texts.back().tokens.size()) - texts.back().first;
      if (texts.back().first > 0 && scored > 0 && scored <= window) continue;
      throw Error(ExitCode::bad_data, "question " + std::to_string(questions.size()) + ", choice " +
                                          std::to_string(texts.size()) + " has " + std::to_string(scored) +
                                          " tokens after " + std::to_string(texts.back().first) +
                                          " of the context; there must be at least one of each, and at most "
                                          "model.max_sequence_length = " +
                                          std::to_string(window) + " of the choice");
    }
  }
  return questions;
}

}  // namespace

EvaluateResult evaluate_checkpoint(const EvaluateRequest& request) {
  const Recipe& recipe = request.recipe;
  const EvaluationData data = evaluation_data(request);
  const Dataset dataset(data.sources, text_format(recipe), recipe.batch.sequence_length, recipe.model.vocab_size, false,
                        recipe.seed, data.role);
  for (const LeftOut& left_out : dataset.left_out())
    for (const std::string& sentence : sentences_of(left_out, recipe.batch.sequence_length))
      log().warn("{}: {}", data.role, sentence);
  Evaluation evaluation;
  const std::int64_t step = with_loaded_model(recipe, request.checkpoint, request.ranks, [&](LocalModel& model) {
    const bool is_first = model.groups().is_first();
    ProgressLines lines("evaluating");
    const auto own = evaluate(model, dataset, request.batches * recipe.batch.global, [&](double share) {
      if (is_first) lines.show(share);
      return false;
    });
    // All ranks have the same result; one of them stores it.
    if (is_first) evaluation = *own;
  });
  if (!std::isfinite(evaluation.loss))
    throw Error(ExitCode::bad_data, request.checkpoint +
                                        ": the model's loss is not finite: its weights have diverged, "
                                        "use an earlier checkpoint");
  const double first = evaluation.terms.front().value;
  EvaluateResult result{evaluation.loss, {}, std::exp(first), std::nullopt, evaluation.tokens, step};
  if (evaluation.terms.size() > 1) result.terms = evaluation.terms;
  if (const auto bytes = evaluated_bytes(dataset, request, evaluation.tokens))
    result.bits_per_byte = first * static_cast<double>(evaluation.tokens) / *bytes / std::numbers::ln2;
  return result;
}

ChoiceScores score_choices(const ScoreRequest& request) {
  const std::vector<std::vector<ScoredText>> questions = scored_texts(request);
  std::size_t most = 0;
  std::int64_t longest = 1;
  for (const std::vector<ScoredText>& texts : questions) {
    most = std::max(most, texts.size());
    for (const ScoredText& text : texts) longest = std::max(longest, static_cast<std::int64_t>(text.tokens.size()));
  }
  ChoiceScores result;
  result.step = with_loaded_model(request.recipe, request.checkpoint, request.ranks, [&](LocalModel& model) {
    const std::int64_t window = model.graph().model.max_sequence_length;
    Decoder decoder(model, static_cast<std::int64_t>(most), std::min(window, longest));
    std::vector<std::vector<double>> scores;
    for (const std::vector<ScoredText>& texts : questions)
      scores.push_back(continuation_scores(decoder, texts, window));
    if (model.groups().is_first()) result.log_probabilities = std::move(scores);
  });
  return result;
}

}  // namespace llmtrain
