// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/padded_texts.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace llmtrain {

void mark_padded(std::span<std::int64_t> starts, std::size_t tokens) {
  std::ranges::fill(starts, 0);
  if (!starts.empty()) starts.front() = 1;
  if (tokens < starts.size()) starts[tokens] = 1;
}

PaddedTexts::PaddedTexts(std::shared_ptr<const TextExamples> texts, std::int64_t sequence_length)
    : texts_(std::move(texts)),
      sequence_{sequence_length, true},
      field_{BatchField::token_ids, ElementType::int64, {sequence_length}, 0} {}

void PaddedTexts::read(std::int64_t number, const FieldMemory& into) const {
  const auto ids = into.values<std::int64_t>(BatchField::token_ids);
  const std::span<std::int64_t> starts = into.starts();
  const auto fits = [&](std::size_t size) { return size == 0 || size == static_cast<std::size_t>(sequence_.length); };
  if (number < 0 || number >= samples() || into.first_row != 0 || !fits(ids.size()) || !fits(starts.size()))
    throw std::invalid_argument("a padded text has a number below their count, and fields as long as its sequence");
  const auto text = texts_->ids(number);
  if (!ids.empty()) {
    std::ranges::fill(ids, texts_->padding());
    std::ranges::copy(text, ids.begin());
  }
  mark_padded(starts, text.size());
}

double PaddedTexts::weight(std::size_t, std::int64_t first, std::int64_t count) const {
  double sum = 0;
  for (std::int64_t number = first; number < first + count; ++number)
    sum += static_cast<double>(texts_->ids(number).size());
  return sum;
}

}  // namespace llmtrain
