// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <string>
#include <vector>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_spans(const Recipe& recipe, const Known&) {
  const DataRecipe& data = recipe.data;
  if (!data.spans) return {};
  if (!is_encoder(recipe.model.architecture))
    return Refusal{"has answers that stand in texts, and this model tells no places there",
                   "needs an encoder as model.architecture", "null"};
  return must_be_alone(data, "questions about texts in rows",
                       {{"denoising", data.denoising.has_value()},
                        {"labels", data.labels.has_value()},
                        {"pairs", data.pairs.has_value()},
                        {"images", data.images.has_value()}});
}

// The tokenizer's marks need room, too, which is known where it is open.
Verdict check_overlap(const Recipe& recipe, const Known&) {
  const auto& spans = recipe.data.spans;
  const std::int64_t length = recipe.batch.sequence_length;
  if (!spans || spans->overlap + spans->question_length < length) return {};
  return Refusal{fmt::format("{} with data.spans.question_length ({}) leaves a window no tokens of its own",
                             spans->overlap, spans->question_length),
                 fmt::format("must be below batch.sequence_length ({}) together with it", length)};
}

}  // namespace

std::vector<Rule> span_rules() {
  return {
      {"/data/spans",
       {"/model/architecture", "/data/fine_tuning", "/data/masking", "/data/denoising", "/data/labels", "/data/pairs",
        "/data/images", "/data/document_mask", "/data/curriculum/sequence_length",
        "/data/curriculum/vocabulary_rarity"},
       check_spans},
      {"/data/spans/overlap",
       {"/data/spans/question_length", "/batch/sequence_length", "/model/max_sequence_length"},
       check_overlap},
  };
}

}  // namespace llmtrain
