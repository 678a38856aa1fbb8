// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/pair_samples.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "core/data/examples/padded_texts.h"

namespace llmtrain {
namespace {

constexpr std::size_t of_source = 0, of_target = 1;

}  // namespace

PairSamples::PairSamples(std::shared_ptr<const PairTexts> texts, std::int64_t source_length, std::int64_t target_length)
    : texts_(std::move(texts)), sequences_{{source_length, true}, {target_length, true}} {
  const auto add = [&](BatchField name, std::size_t sequence, ElementType type = ElementType::int64) {
    fields_.push_back({name, type, {sequences_[sequence].length}, sequence});
  };
  add(BatchField::source_ids, of_source);
  add(BatchField::token_ids, of_target);
  add(BatchField::targets, of_target);
  add(BatchField::counted_rows, of_target, ElementType::uint8);
}

void PairSamples::check(std::int64_t number, const FieldMemory& into) const {
  const auto fits_memory = [](std::size_t has, std::int64_t needs) {
    return has == 0 || has == static_cast<std::size_t>(needs);
  };
  bool fits = number >= 0 && number < samples() && into.first_row == 0 &&
              (into.document_starts.empty() || into.document_starts.size() == sequences_.size());
  for (const SampleField& field : fields_)
    fits = fits && fits_memory(into.fields[index_of(field.name)].size(),
                               sequences_[*field.sequence].length * element_size(field.type));
  for (std::size_t i = 0; fits && i < into.document_starts.size(); ++i)
    fits = fits_memory(into.document_starts[i].size(), sequences_[i].length);
  if (!fits)
    throw std::invalid_argument("a pair of texts has a number below their count, and fields as long as its sequences");
}

void PairSamples::read(std::int64_t number, const FieldMemory& into) const {
  check(number, into);
  const PairTexts::Pair pair = texts_->pair(number);
  const auto fill = [&](BatchField field, std::span<const TokenId> ids) {
    const std::span<std::int64_t> memory = into.values<std::int64_t>(field);
    if (memory.empty()) return;
    std::ranges::fill(std::ranges::copy(ids, memory.begin()).out, memory.end(), texts_->padding());
  };
  fill(BatchField::source_ids, pair.source);
  fill(BatchField::targets, pair.target);
  const std::span<std::int64_t> read = into.values<std::int64_t>(BatchField::token_ids);
  if (!read.empty()) {
    fill(BatchField::token_ids, pair.target);
    std::shift_right(read.begin(), read.begin() + std::ssize(pair.target), 1);
    read.front() = texts_->decoder_start();
  }
  const std::span<std::uint8_t> counted = into.values<std::uint8_t>(BatchField::counted_rows);
  for (std::size_t row = 0; row < counted.size(); ++row) counted[row] = row < pair.target.size() ? 1 : 0;
  if (into.document_starts.empty()) return;
  mark_padded(into.document_starts[of_source], pair.source.size());
  mark_padded(into.document_starts[of_target], pair.target.size());
}

double PairSamples::weight(std::size_t, std::int64_t first, std::int64_t count) const {
  double sum = 0;
  for (std::int64_t number = first; number < first + count; ++number)
    sum += static_cast<double>(texts_->pair(number).target.size());
  return sum;
}

std::vector<DocumentRows> PairSamples::documents_of(std::int64_t sample) const {
  const PairTexts::Pair pair = texts_->pair(sample);
  return {{0, std::ssize(pair.source)}, {0, std::ssize(pair.target)}};
}

}  // namespace llmtrain
