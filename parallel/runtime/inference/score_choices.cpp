// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tokenizer/open_tokenizer.h"
#include "parallel/engine/generation/continuation_scores.h"
#include "parallel/runtime/inference/inference_requests.h"
#include "parallel/runtime/loaded_model.h"

namespace llmtrain {
namespace {

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

ChoiceScores score_choices(const ScoreRequest& request) {
  const std::vector<std::vector<ScoredText>> questions = scored_texts(request);
  std::size_t most = 0;
  std::int64_t longest = 1;
  for (const std::vector<ScoredText>& texts : questions) {
    most = std::max(most, texts.size());
    for (const ScoredText& text : texts) longest = std::max(longest, static_cast<std::int64_t>(text.tokens.size()));
  }
  ChoiceScores result;
  result.step =
      with_loaded_model(request.recipe, request.checkpoint, request.ranks, request.memory, [&](LocalModel& model) {
        const std::int64_t window = model.graph().model.max_sequence_length;
        Decoder decoder(model, static_cast<std::int64_t>(most), std::min(window, longest), request.key_values);
        std::vector<std::vector<double>> scores;
        for (const std::vector<ScoredText>& texts : questions)
          scores.push_back(continuation_scores(decoder, texts, window));
        if (model.groups().is_first()) result.log_probabilities = std::move(scores);
      });
  return result;
}

}  // namespace llmtrain
