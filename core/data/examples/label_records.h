// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/data/records/record_reader.h"
#include "core/recipe/data_recipe.h"

namespace llmtrain {

// A text, or two, with one label; or the words of a text with a label each.
struct LabelledRecord {
  std::vector<std::string> words;   // of a text with one label the text itself
  std::optional<std::string> pair;  // the second text
  std::vector<std::int64_t> labels;
};

// What a row says, with the keys that the recipe names. A label is a number from 0 or the name of a class, also as text
// that a table has; words and their labels are lists, or texts of JSON that hold lists. Throws BadLine, which names the
// keys that there are, or the label and the classes.
LabelledRecord labelled_record(const Record& record, const std::filesystem::path& file, const LabelsRecipe& recipe);

}  // namespace llmtrain
