// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/label_records.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "core/data/examples/example_row.h"
#include "core/json/json_file.h"
#include "core/json/json_text.h"

namespace llmtrain {
namespace {

class RowReader {
 public:
  RowReader(const Record& record, const std::filesystem::path& file, const LabelsRecipe& recipe)
      : row_(record, file, "data.labels"), recipe_(recipe) {}

  const ExampleRow& row() const { return row_; }

  std::int64_t label_of(const Json& written) const {
    if (written.is_number_integer() || written.is_number_unsigned())
      return checked(written.get<std::int64_t>(), written);
    if (!written.is_string()) fail_label(written);
    const auto& name = written.get_ref<const std::string&>();
    const auto found = std::ranges::find(recipe_.classes, name);
    if (found != recipe_.classes.end()) return found - recipe_.classes.begin();
    std::int64_t number = -1;
    const auto end = name.data() + name.size();
    if (std::from_chars(name.data(), end, number).ptr != end || name.empty()) fail_label(written);
    return checked(number, written);
  }

 private:
  std::int64_t checked(std::int64_t label, const Json& written) const {
    if (label < 0 || label >= std::ssize(recipe_.classes)) fail_label(written);
    return label;
  }

  [[noreturn]] void fail_label(const Json& written) const {
    std::vector<std::string> names;
    constexpr std::size_t most = 20;
    for (std::size_t i = 0; i < std::min(most, recipe_.classes.size()); ++i)
      names.push_back(fmt::format("\"{}\"", shown_text(recipe_.classes[i])));
    if (recipe_.classes.size() > most) names.emplace_back("…");
    row_.fail(fmt::format("has the label {}, which is none of data.labels.classes", shown_value(written)),
              fmt::format("a label is one of {}, or a number from 0 to {}", fmt::join(names, ", "),
                          recipe_.classes.size() - 1));
  }

  ExampleRow row_;
  const LabelsRecipe& recipe_;
};

LabelledRecord read_words(const RowReader& reader, const LabelsRecipe& recipe) {
  LabelledRecord read;
  const ExampleRow& row = reader.row();
  const std::string words = words_key(recipe), labels = label_key(recipe);
  for (const Json& word : row.list_at(words)) {
    if (!word.is_string()) row.fail(fmt::format("has a word in \"{}\" that is no string", words));
    read.words.push_back(word.get<std::string>());
  }
  for (const Json& label : row.list_at(labels)) read.labels.push_back(reader.label_of(label));
  if (read.words.size() != read.labels.size())
    row.fail(fmt::format("has {} words in \"{}\" and {} labels in \"{}\"", read.words.size(), words, read.labels.size(),
                         labels));
  return read;
}

}  // namespace

LabelledRecord labelled_record(const Record& record, const std::filesystem::path& file, const LabelsRecipe& recipe) {
  const RowReader reader(record, file, recipe);
  if (recipe.of == LabelledPart::words) return read_words(reader, recipe);
  const ExampleRow& row = reader.row();
  LabelledRecord read{{row.text_at(words_key(recipe))}, {}, {reader.label_of(row.at(label_key(recipe), "label"))}};
  if (recipe.text_pair) read.pair = row.text_at(*recipe.text_pair);
  return read;
}

}  // namespace llmtrain
