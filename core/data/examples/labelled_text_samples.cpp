// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/labelled_text_samples.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "core/data/examples/padded_texts.h"

namespace llmtrain {

LabelledTextSamples::LabelledTextSamples(std::shared_ptr<const LabelledTexts> texts, std::int64_t sequence_length)
    : texts_(std::move(texts)), sequence_{sequence_length, true} {
  const auto of_rows = [&](BatchField name, ElementType type = ElementType::int64) {
    fields_.push_back({name, type, {sequence_length}, 0});
  };
  of_rows(BatchField::token_ids);
  of_rows(BatchField::token_types);
  if (texts_->part() == LabelledPart::text) {
    fields_.push_back({BatchField::label, ElementType::int64, {}, std::nullopt});
  } else {
    of_rows(BatchField::targets);
    of_rows(BatchField::counted_rows, ElementType::uint8);
  }
}

void LabelledTextSamples::check(std::int64_t number, const FieldMemory& into) const {
  bool fits = number >= 0 && number < samples() && into.first_row == 0;
  for (const SampleField& field : fields_) {
    const std::size_t values = field.sequence ? static_cast<std::size_t>(sequence_.length) : 1;
    const std::size_t bytes = into.fields[index_of(field.name)].size();
    fits = fits && (bytes == 0 || bytes == values * static_cast<std::size_t>(element_size(field.type)));
  }
  const std::size_t starts = into.starts().size();
  if (!fits || (starts != 0 && starts != static_cast<std::size_t>(sequence_.length)))
    throw std::invalid_argument("a labelled text has a number below their count, and fields as long as its sequence");
}

void LabelledTextSamples::read(std::int64_t number, const FieldMemory& into) const {
  check(number, into);
  const LabelledTexts::Example example = texts_->example(number);
  const auto fill = [&]<class Value>(std::span<Value> memory, std::int64_t rest, auto value) {
    for (std::size_t row = 0; row < memory.size(); ++row)
      memory[row] = static_cast<Value>(row < example.ids.size() ? value(row) : rest);
  };
  fill(into.values<std::int64_t>(BatchField::token_ids), texts_->padding(),
       [&](std::size_t row) { return std::int64_t{example.ids[row]}; });
  fill(into.values<std::int64_t>(BatchField::token_types), 0,
       [&](std::size_t row) { return std::int64_t{example.types[row]}; });
  if (texts_->part() == LabelledPart::text) {
    std::ranges::fill(into.values<std::int64_t>(BatchField::label), example.labels.front());
  } else {
    fill(into.values<std::int64_t>(BatchField::targets), 0,
         [&](std::size_t row) { return std::max<std::int64_t>(0, example.labels[row]); });
    fill(into.values<std::uint8_t>(BatchField::counted_rows), 0,
         [&](std::size_t row) { return std::int64_t{example.labels[row] == LabelledTexts::no_label ? 0 : 1}; });
  }
  mark_padded(into.starts(), example.ids.size());
}

double LabelledTextSamples::weight(std::size_t, std::int64_t first, std::int64_t count) const {
  double sum = 0;
  for (std::int64_t number = first; number < first + count; ++number)
    sum += static_cast<double>(texts_->labels_of(number));
  return sum;
}

}  // namespace llmtrain
