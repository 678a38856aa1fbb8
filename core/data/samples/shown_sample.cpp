// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/shown_sample.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace llmtrain {
namespace {

// A sample's fields; without marks all rows count.
struct Fields {
  bool has_marks = false;
  std::vector<std::int64_t> ids, targets;
  std::vector<std::uint8_t> counted;
};

Fields read_fields(const Dataset& dataset, std::int64_t number) {
  const auto length = static_cast<std::size_t>(dataset.sequences().front().length);
  const bool has_marks = std::ranges::any_of(
      dataset.fields(), [](const SampleField& field) { return field.name == BatchField::counted_rows; });
  Fields fields{has_marks, std::vector<std::int64_t>(length), std::vector<std::int64_t>(length),
                std::vector<std::uint8_t>(length, 1)};
  FieldMemory memory;
  memory.set(BatchField::token_ids, std::span(fields.ids));
  memory.set(BatchField::targets, std::span(fields.targets));
  if (has_marks) memory.set(BatchField::counted_rows, std::span(fields.counted));
  dataset.read(number, memory);
  return fields;
}

ShownSample::Document shown_document(const Fields& fields, const DocumentRows& rows, const Tokenizer& tokenizer) {
  ShownSample::Document document;
  std::vector<std::int64_t> ids;
  bool counts = false;
  const auto end_part = [&] {
    if (ids.empty()) return;
    const bool is_first = document.parts.empty();
    document.parts.push_back({is_first ? tokenizer.decode(ids) : tokenizer.decode_continuation(ids), counts});
    ids.clear();
  };
  const auto add = [&](std::int64_t id, bool id_counts) {
    if (id_counts != counts) end_part();
    counts = id_counts;
    ids.push_back(id);
    ++document.tokens;
    if (counts) ++document.counted;
  };
  for (std::int64_t row = rows.begin; row < rows.begin + rows.length; ++row)
    add(fields.ids[static_cast<std::size_t>(row)],
        row > rows.begin ? fields.counted[static_cast<std::size_t>(row) - 1] != 0 : !fields.has_marks);
  const auto last = static_cast<std::size_t>(rows.begin + rows.length) - 1;
  // The next document's first token, elsewhere.
  if (fields.has_marks && fields.counted[last] != 0) add(fields.targets[last], true);
  end_part();
  return document;
}

// Each token that is hidden is a part of its own.
ShownSample::Document masked_document(const Fields& fields, const DocumentRows& rows, const Tokenizer& tokenizer) {
  ShownSample::Document document;
  document.tokens = rows.length;
  std::vector<std::int64_t> ids;
  bool counts = false;
  const auto text_of = [&](std::span<const std::int64_t> shown) {
    return document.parts.empty() ? tokenizer.decode(shown) : tokenizer.decode_continuation(shown);
  };
  const auto end_part = [&] {
    if (!ids.empty()) document.parts.push_back({text_of(ids), counts});
    ids.clear();
  };
  for (auto row = static_cast<std::size_t>(rows.begin); row < static_cast<std::size_t>(rows.begin + rows.length);
       ++row) {
    const bool row_counts = fields.counted[row] != 0;
    const std::int64_t id = fields.ids[row], target = fields.targets[row];
    document.counted += row_counts ? 1 : 0;
    if (id != target || row_counts != counts) end_part();
    counts = row_counts;
    if (id == target)
      ids.push_back(id);
    else
      document.parts.push_back({text_of(std::array{id}), true, tokenizer.decode_continuation(std::array{target})});
  }
  end_part();
  return document;
}

bool are_pairs(const Dataset& dataset) {
  return std::ranges::any_of(dataset.fields(),
                             [](const SampleField& field) { return field.name == BatchField::source_ids; });
}

ShownSample shown_pair(const Dataset& dataset, std::int64_t number, const Tokenizer& tokenizer) {
  const auto row_of = [&](std::size_t sequence) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(dataset.sequences()[sequence].length));
  };
  std::vector<std::int64_t> source = row_of(0), target = row_of(1);
  FieldMemory memory;
  memory.set(BatchField::source_ids, std::span(source));
  memory.set(BatchField::targets, std::span(target));
  std::vector<std::int64_t> source_starts = row_of(0), target_starts = row_of(1);
  memory.document_starts = {source_starts, target_starts};
  dataset.read(number, memory);
  ShownSample sample;
  sample.padding = std::ssize(source) + std::ssize(target);
  // Padding is the second document.
  const auto tokens_of = [](const std::vector<std::int64_t>& starts) {
    return std::ranges::find(starts.begin() + 1, starts.end(), 1) - starts.begin();
  };
  const auto add = [&](const char* name, std::span<const std::int64_t> ids, std::int64_t tokens, bool counts) {
    const std::string text = tokenizer.decode(ids.first(static_cast<std::size_t>(tokens)));
    sample.documents.push_back({name, tokens, counts ? tokens : 0, {{text, counts}}});
    sample.padding -= tokens;
  };
  add("source", source, tokens_of(source_starts), false);
  add("target", target, tokens_of(target_starts), true);
  return sample;
}

// A question with a window of its text, whose answer is a part of its own.
ShownSample shown_question(const Dataset& dataset, std::int64_t number, const Tokenizer& tokenizer) {
  const Dataset::QuestionPlace place = dataset.question(number);
  const SpanTexts::Window window = place.texts->window(place.window);
  ShownSample::Document document;
  document.tokens = std::ssize(window.ids);
  const auto add = [&](std::size_t begin, std::size_t end, bool is_answer) {
    const std::vector<std::int64_t> ids(window.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                        window.ids.begin() + static_cast<std::ptrdiff_t>(end));
    const bool is_first = document.parts.empty();
    if (!ids.empty())
      document.parts.push_back({is_first ? tokenizer.decode(ids) : tokenizer.decode_continuation(ids), is_answer});
    document.counted += is_answer ? std::ssize(ids) : 0;
  };
  const auto begin = static_cast<std::size_t>(window.answer[0]), end = static_cast<std::size_t>(window.answer[1]) + 1;
  add(0, begin, false);
  add(begin, end, true);
  add(end, window.ids.size(), false);
  ShownSample sample;
  sample.padding = dataset.sequences().front().length - document.tokens;
  sample.documents.push_back(std::move(document));
  return sample;
}

}  // namespace

ShownSample shown_sample(const Dataset& dataset, std::int64_t number, const Tokenizer& tokenizer) {
  if (dataset.has_questions()) return shown_question(dataset, number, tokenizer);
  if (are_pairs(dataset)) return shown_pair(dataset, number, tokenizer);
  const Fields fields = read_fields(dataset, number);
  ShownSample sample;
  sample.padding = std::ssize(fields.ids);
  for (const DocumentRows& rows : dataset.documents_of(number)) {
    sample.documents.push_back(dataset.restores_tokens() ? masked_document(fields, rows, tokenizer)
                                                         : shown_document(fields, rows, tokenizer));
    sample.padding -= rows.length;
  }
  return sample;
}

}  // namespace llmtrain
