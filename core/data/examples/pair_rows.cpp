// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/pair_rows.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

#include "core/data/examples/padded_texts.h"
#include "core/tokenizer/pieces/token_id.h"

namespace llmtrain {
namespace {

constexpr std::size_t of_source = 0, of_target = 1;

}  // namespace

PairRows::PairRows(const Format& format)
    : format_(format), sequences_{{format.source_length, true}, {format.target_length, true}} {
  const auto add = [&](BatchField name, std::size_t sequence, ElementType type = ElementType::int64) {
    fields_.push_back({name, type, {sequences_[sequence].length}, sequence});
  };
  add(BatchField::source_ids, of_source);
  add(BatchField::token_ids, of_target);
  add(BatchField::targets, of_target);
  add(BatchField::counted_rows, of_target, ElementType::uint8);
}

void PairRows::check(const FieldMemory& into) const {
  const auto fits_memory = [](std::size_t has, std::int64_t needs) {
    return has == 0 || has == static_cast<std::size_t>(needs);
  };
  bool fits = into.first_row == 0 && (into.document_starts.empty() || into.document_starts.size() == sequences_.size());
  for (const SampleField& field : fields_)
    fits = fits && fits_memory(into.fields[index_of(field.name)].size(),
                               sequences_[*field.sequence].length * element_size(field.type));
  for (std::size_t i = 0; fits && i < into.document_starts.size(); ++i)
    fits = fits_memory(into.document_starts[i].size(), sequences_[i].length);
  if (!fits) throw std::invalid_argument("a source and its target have fields as long as their sequences");
}

template <class Id>
void PairRows::write(std::span<const Id> source, std::span<const Id> target, const FieldMemory& into) const {
  const auto fill = [&](BatchField field, std::span<const Id> ids) {
    const std::span<std::int64_t> memory = into.values<std::int64_t>(field);
    if (memory.empty()) return;
    std::ranges::fill(std::ranges::copy(ids, memory.begin()).out, memory.end(), format_.padding);
  };
  fill(BatchField::source_ids, source);
  fill(BatchField::targets, target);
  const std::span<std::int64_t> read = into.values<std::int64_t>(BatchField::token_ids);
  if (!read.empty()) {
    fill(BatchField::token_ids, target);
    std::shift_right(read.begin(), read.begin() + std::ssize(target), 1);
    read.front() = format_.decoder_start;
  }
  const std::span<std::uint8_t> counted = into.values<std::uint8_t>(BatchField::counted_rows);
  for (std::size_t row = 0; row < counted.size(); ++row) counted[row] = row < target.size() ? 1 : 0;
  if (into.document_starts.empty()) return;
  mark_padded(into.document_starts[of_source], source.size());
  mark_padded(into.document_starts[of_target], target.size());
}

template void PairRows::write(std::span<const std::int64_t>, std::span<const std::int64_t>, const FieldMemory&) const;
template void PairRows::write(std::span<const TokenId>, std::span<const TokenId>, const FieldMemory&) const;

}  // namespace llmtrain
