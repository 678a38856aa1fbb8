// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/label_records.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/data/records/bad_lines.h"
#include "core/json/json_file.h"
#include "core/json/json_memory.h"
#include "core/json/json_text.h"

namespace llmtrain {
namespace {

class RowReader {
 public:
  RowReader(const Record& record, const std::filesystem::path& file, const LabelsRecipe& recipe)
      : line_(record.line), file_(file), recipe_(recipe) {
    if (is_too_large_json(record.text)) fail(std::string(too_large_json));
    row_ = Json::parse(record.text, nullptr, false);
    if (!row_.is_object()) fail(row_.is_discarded() ? "is not valid JSON" : "is no object");
  }

  std::string text_at(const std::string& key) const {
    const Json& value = at(key, "string");
    if (!value.is_string()) fail_kind(key, "string");
    return value.get<std::string>();
  }

  // Tables hold a list as a text of JSON.
  Json list_at(const std::string& key) const {
    Json list = at(key, "list");
    if (list.is_string()) list = Json::parse(list.get_ref<const std::string&>(), nullptr, false);
    if (!list.is_array()) fail_kind(key, "list");
    return list;
  }

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

  const Json& at(const std::string& key, std::string_view kind) const {
    if (!row_.contains(key)) fail_kind(key, kind);
    return row_[key];
  }

  [[noreturn]] void fail(std::string reason, const std::string& advice = "") const {
    throw BadLine(file_, line_, std::move(reason), advice);
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
    fail(fmt::format("has the label {}, which is none of data.labels.classes", shown_value(written)),
         fmt::format("a label is one of {}, or a number from 0 to {}", fmt::join(names, ", "),
                     recipe_.classes.size() - 1));
  }

  [[noreturn]] void fail_kind(const std::string& key, std::string_view kind) const {
    std::vector<std::string> keys;
    constexpr std::size_t most = 20;
    for (const auto& [name, value] : row_.items()) {
      if (keys.size() == most) break;
      keys.push_back(fmt::format("\"{}\"", shown_text(name)));
    }
    if (row_.size() > most) keys.emplace_back("…");
    fail(fmt::format("has no {} \"{}\"", kind, key),
         fmt::format("data.labels names the keys of rows; this one has {}",
                     keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", "))));
  }

  std::int64_t line_;
  const std::filesystem::path& file_;
  const LabelsRecipe& recipe_;
  Json row_;
};

LabelledRecord read_words(const RowReader& row, const LabelsRecipe& recipe) {
  LabelledRecord read;
  const std::string words = words_key(recipe), labels = label_key(recipe);
  for (const Json& word : row.list_at(words)) {
    if (!word.is_string()) row.fail(fmt::format("has a word in \"{}\" that is no string", words));
    read.words.push_back(word.get<std::string>());
  }
  for (const Json& label : row.list_at(labels)) read.labels.push_back(row.label_of(label));
  if (read.words.size() != read.labels.size())
    row.fail(fmt::format("has {} words in \"{}\" and {} labels in \"{}\"", read.words.size(), words, read.labels.size(),
                         labels));
  return read;
}

}  // namespace

LabelledRecord labelled_record(const Record& record, const std::filesystem::path& file, const LabelsRecipe& recipe) {
  const RowReader row(record, file, recipe);
  if (recipe.of == LabelledPart::words) return read_words(row, recipe);
  LabelledRecord read{{row.text_at(words_key(recipe))}, {}, {row.label_of(row.at(label_key(recipe), "label"))}};
  if (recipe.text_pair) read.pair = row.text_at(*recipe.text_pair);
  return read;
}

}  // namespace llmtrain
