// SPDX-License-Identifier: Apache-2.0
#include "core/data/spans/span_samples.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "core/data/examples/padded_texts.h"

namespace llmtrain {

SpanSamples::SpanSamples(std::shared_ptr<const SpanTexts> texts, std::int64_t sequence_length)
    : texts_(std::move(texts)),
      sequence_{sequence_length, true},
      fields_{{BatchField::token_ids, ElementType::int64, {sequence_length}, 0},
              {BatchField::token_types, ElementType::int64, {sequence_length}, 0},
              {BatchField::span, ElementType::int64, {2}, std::nullopt}} {}

void SpanSamples::read(std::int64_t number, const FieldMemory& into) const {
  const auto ids = into.values<std::int64_t>(BatchField::token_ids),
             types = into.values<std::int64_t>(BatchField::token_types),
             span = into.values<std::int64_t>(BatchField::span);
  const auto is_as_long = [](std::size_t size, std::int64_t length) {
    return size == 0 || size == static_cast<std::size_t>(length);
  };
  const bool fits = is_as_long(ids.size(), sequence_.length) && is_as_long(types.size(), sequence_.length) &&
                    is_as_long(span.size(), 2) && is_as_long(into.starts().size(), sequence_.length);
  if (!fits || number < 0 || number >= samples() || into.first_row != 0)
    throw std::invalid_argument("a question has a number below their count, and fields as long as its sequence");
  const SpanTexts::Window window = texts_->window(number);
  if (!ids.empty()) std::ranges::fill(std::ranges::copy(window.ids, ids.begin()).out, ids.end(), texts_->padding());
  if (!types.empty()) std::ranges::fill(std::ranges::copy(window.types, types.begin()).out, types.end(), 0);
  if (!span.empty()) std::ranges::copy(window.answer, span.begin());
  mark_padded(into.starts(), window.ids.size());
}

}  // namespace llmtrain
