// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/data/records/record_reader.h"
#include "core/recipe/data_recipe.h"

namespace llmtrain {

// A question about a text, and the answers that people have found there.
struct SpanRecord {
  struct Answer {
    std::string text;
    std::size_t begin = 0;  // its first byte in the context
  };
  std::string question, context;
  std::vector<Answer> answers;  // none: the text does not answer the question
};

// What a row says, with the keys that the recipe names. Answers are {"text": […], "answer_start": […]}, with places in
// characters, also as a text of JSON that a table has. Throws BadLine, which names the keys that there are; where an
// answer does not stand where it should, and where there is none but the recipe wants one.
SpanRecord span_record(const Record& record, const std::filesystem::path& file, const SpansRecipe& recipe);

}  // namespace llmtrain
