// SPDX-License-Identifier: Apache-2.0
#include "core/data/spans/span_record.h"

#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/data/examples/example_row.h"
#include "core/json/json_text.h"
#include "core/tokenizer/pieces/characters.h"

namespace llmtrain {
namespace {

// Where the character of this number begins; texts of JSON are valid UTF-8.
std::optional<std::size_t> byte_of(std::string_view text, std::int64_t number) {
  std::size_t place = 0;
  for (std::int64_t i = 0; i < number; ++i) {
    if (place >= text.size()) return std::nullopt;
    place += first_character(text.substr(place)).bytes;
  }
  return place;
}

// The list at a key of the answers, whose entries hold for as many answers.
const Json& part_of(const ExampleRow& row, const std::string& key, const Json& answers, const char* name) {
  const auto found = answers.find(name);
  if (found == answers.end() || !found->is_array())
    row.fail(fmt::format("has no list \"{}\" in \"{}\"", name, key),
             "answers are {\"text\": [...], \"answer_start\": [...]}, as SQuAD has them");
  return *found;
}

SpanRecord::Answer answer_of(const ExampleRow& row, const std::string& context, const Json& text, const Json& start) {
  if (!text.is_string() || !start.is_number_integer() || start < 0)
    row.fail("has an answer whose text is no string, or whose start no number from 0");
  SpanRecord::Answer answer{text.get<std::string>()};
  const std::optional<std::size_t> begin = byte_of(context, start.get<std::int64_t>());
  if (!begin || answer.text.empty() || context.compare(*begin, answer.text.size(), answer.text) != 0)
    row.fail(fmt::format("has the answer \"{}\", which does not stand at character {} of its text",
                         shown_text(answer.text), start.get<std::int64_t>()),
             "places count characters from 0");
  answer.begin = *begin;
  return answer;
}

}  // namespace

SpanRecord span_record(const Record& record, const std::filesystem::path& file, const SpansRecipe& recipe) {
  const ExampleRow row(record, file, "data.spans");
  SpanRecord read{row.text_at(question_key(recipe)), row.text_at(context_key(recipe)), {}};
  const std::string key = answers_key(recipe);
  Json answers = row.at(key, "answers");
  if (answers.is_string()) answers = Json::parse(answers.get_ref<const std::string&>(), nullptr, false);
  if (!answers.is_object()) row.fail(fmt::format("has no object \"{}\"", key));
  const Json &texts = part_of(row, key, answers, "text"), &starts = part_of(row, key, answers, "answer_start");
  if (texts.size() != starts.size())
    row.fail(fmt::format("has {} answers and {} starts in \"{}\"", texts.size(), starts.size(), key));
  for (std::size_t i = 0; i < texts.size(); ++i)
    read.answers.push_back(answer_of(row, read.context, texts[i], starts[i]));
  if (read.answers.empty() && !recipe.unanswerable)
    row.fail("has no answer", "where questions may have none, data.spans.unanswerable is true");
  return read;
}

}  // namespace llmtrain
