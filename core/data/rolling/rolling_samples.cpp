// SPDX-License-Identifier: Apache-2.0
#include "core/data/rolling/rolling_samples.h"

#include <algorithm>
#include <stdexcept>

#include "core/data/samples/packing.h"

namespace llmtrain {
namespace {

std::vector<std::vector<std::int64_t>> packed_windows(const RollingTexts& texts, std::int64_t length) {
  std::vector<std::int64_t> lengths;
  for (const RollingTexts::Window& window : texts.windows()) lengths.push_back(window.length);
  return pack(lengths, length);
}

}  // namespace

RollingSamples::RollingSamples(const RollingTexts& texts, std::int64_t length)
    : texts_(texts),
      packed_(packed_windows(texts, length)),
      sequence_{length, true},
      fields_{{BatchField::token_ids, ElementType::int64, {length}, 0},
              {BatchField::targets, ElementType::int64, {length}, 0},
              {BatchField::counted_rows, ElementType::uint8, {length}, 0}} {}

void RollingSamples::read(std::int64_t number, const FieldMemory& into) const {
  const auto ids = into.values<std::int64_t>(BatchField::token_ids),
             targets = into.values<std::int64_t>(BatchField::targets);
  const auto marks = into.values<std::uint8_t>(BatchField::counted_rows);
  const std::span<std::int64_t> starts = into.starts();
  const auto fits = [this](std::size_t size) {
    return size == 0 || size == static_cast<std::size_t>(sequence_.length);
  };
  if (number < 0 || into.first_row != 0 || !fits(ids.size()) || !fits(targets.size()) || !fits(marks.size()) ||
      !fits(starts.size()))
    throw std::invalid_argument("a sample of windows has a number from 0, and fields as long as its sequence");
  for (const auto memory : {ids, targets, starts}) std::ranges::fill(memory, 0);
  std::ranges::fill(marks, std::uint8_t{0});
  std::size_t row = 0;
  for (const std::int64_t index : packed_[static_cast<std::size_t>(number) % packed_.size()]) {
    const RollingTexts::Window& window = texts_.windows()[static_cast<std::size_t>(index)];
    const TokenId* const inputs = texts_.ids().data() + window.begin;
    const auto length = static_cast<std::size_t>(window.length),
               context = length - static_cast<std::size_t>(window.scored);
    if (!starts.empty()) starts[row] = 1;
    if (!ids.empty()) std::copy_n(inputs, length, ids.begin() + static_cast<std::ptrdiff_t>(row));
    if (!targets.empty()) std::copy_n(inputs + 1, length, targets.begin() + static_cast<std::ptrdiff_t>(row));
    if (!marks.empty()) std::ranges::fill(marks.subspan(row + context, length - context), std::uint8_t{1});
    row += length;
  }
  // Padding is two documents of its own: a sample may be longer by a few rows than what the model takes.
  if (!starts.empty() && row < starts.size()) starts[row] = starts[row + (starts.size() - row) / 2] = 1;
}

double RollingSamples::weight(std::size_t, std::int64_t first, std::int64_t count) const {
  double sum = 0;
  for (std::int64_t sample = first; sample < first + count; ++sample)
    for (const std::int64_t index : packed_[static_cast<std::size_t>(sample) % packed_.size()])
      sum += static_cast<double>(texts_.windows()[static_cast<std::size_t>(index)].scored);
  return sum;
}

}  // namespace llmtrain
