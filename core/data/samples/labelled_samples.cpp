// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/labelled_samples.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace llmtrain {
namespace {

// The memory, or where nobody asks for it some of `own`.
std::span<std::int64_t> memory_or(std::span<std::int64_t> memory, std::vector<std::int64_t>& own, std::size_t length) {
  if (!memory.empty()) return memory;
  own.resize(length);
  return own;
}

}  // namespace

LabelledSamples::LabelledSamples(std::shared_ptr<const LabelledDocuments> documents, bool are_packed,
                                 std::int64_t sequence_length)
    : documents_(std::move(documents)),
      // Unpacked, padding is no document of its own: no row that counts looks at it, and attention by documents has no
      // dropout and sums in another order.
      sequence_{sequence_length, are_packed},
      fields_{{BatchField::token_ids, ElementType::int64, {sequence_length}, 0},
              {BatchField::targets, ElementType::int64, {sequence_length}, 0},
              {BatchField::counted_rows, ElementType::uint8, {sequence_length}, 0}} {
  if (const std::int64_t numbers = documents_->expert_numbers(); numbers > 0)
    fields_.push_back({BatchField::routed_experts, ElementType::int64, {sequence_length, numbers}, 0});
}

void LabelledSamples::read(std::int64_t number, const FieldMemory& into) const {
  const auto ids = into.values<std::int64_t>(BatchField::token_ids),
             targets = into.values<std::int64_t>(BatchField::targets);
  const auto marks = into.values<std::uint8_t>(BatchField::counted_rows);
  const std::span<std::int64_t> starts = into.starts();
  const auto length = static_cast<std::size_t>(sequence_.length);
  const auto fits = [&](std::size_t size) { return size == 0 || size == length; };
  const auto experts = into.values<std::int64_t>(BatchField::routed_experts);
  const std::size_t told = length * static_cast<std::size_t>(documents_->expert_numbers());
  if (number < 0 || (!experts.empty() && experts.size() != told) || into.first_row != 0 || !fits(ids.size()) ||
      !fits(targets.size()) || !fits(marks.size()) || !fits(starts.size()))
    throw std::invalid_argument("a labelled sample has a number from 0, and fields as long as its sequence");
  std::vector<std::int64_t> own_ids, own_targets;
  const LabelledSample sample{memory_or(ids, own_ids, length), memory_or(targets, own_targets, length), experts};
  const std::vector<DocumentRows> documents = documents_->read(number, sample);
  std::ranges::fill(starts, 0);
  for (const DocumentRows& document : documents)
    if (!starts.empty()) starts[static_cast<std::size_t>(document.begin)] = 1;
  for (std::size_t row = 0; row < length; ++row) {
    const bool counts = sample.targets[row] != not_counted;
    if (!marks.empty()) marks[row] = counts ? 1 : 0;
    if (!counts) sample.targets[row] = 0;
  }
}

double LabelledSamples::weight(std::size_t, std::int64_t first, std::int64_t count) const {
  double sum = 0;
  for (std::int64_t sample = first; sample < first + count; ++sample)
    sum += static_cast<double>(documents_->counted(sample));
  return sum;
}

}  // namespace llmtrain
