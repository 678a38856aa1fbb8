// SPDX-License-Identifier: Apache-2.0
#include "core/data/masking/masked_samples.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace llmtrain {

MaskedSamples::MaskedSamples(std::unique_ptr<FileSamples> texts, std::shared_ptr<const Masking> masking,
                             std::uint64_t key)
    : texts_(std::move(texts)), masking_(std::move(masking)), key_(key), sequence_(texts_->sequences().front()) {
  // A part of a sample has another number of rows that count than its share of them.
  sequence_.can_be_cut = false;
  fields_ = {{BatchField::token_ids, ElementType::int64, {sequence_.length}, 0},
             {BatchField::targets, ElementType::int64, {sequence_.length}, 0},
             {BatchField::counted_rows, ElementType::uint8, {sequence_.length}, 0}};
}

std::int64_t MaskedSamples::counted(double length) const {
  return masked_count(masking_->recipe.probability, static_cast<std::int64_t>(length));
}

void MaskedSamples::read_drawn(std::int64_t number, std::int64_t draw, const FieldMemory& into) const {
  const auto length = static_cast<std::size_t>(sequence_.length);
  const auto ids = into.values<std::int64_t>(BatchField::token_ids),
             targets = into.values<std::int64_t>(BatchField::targets);
  const auto marks = into.values<std::uint8_t>(BatchField::counted_rows);
  const auto fits = [&](std::size_t size) { return size == 0 || size == length; };
  const bool has_room = into.starts().empty() || (sequence_.has_documents && fits(into.starts().size()));
  if (number < 0 || into.first_row != 0 || !fits(ids.size()) || !fits(targets.size()) || !fits(marks.size()) ||
      !has_room)
    throw std::invalid_argument("a masked sample has a number from 0, and fields as long as its sequence");
  std::vector<std::int64_t> tokens(length), starts(sequence_.has_documents ? length : 0);
  FieldMemory text;
  text.set(BatchField::token_ids, std::span(tokens));
  if (sequence_.has_documents) text.document_starts.emplace_back(starts);
  texts_->read(number, text);
  if (!into.starts().empty()) std::ranges::copy(starts, into.starts().begin());
  if (!targets.empty()) std::ranges::copy(tokens, targets.begin());

  std::vector<std::uint8_t> own_marks(length);
  const double rows = texts_->weight(0, number, 1);
  const auto text_rows = static_cast<std::size_t>(rows);
  const MaskedRows masked{std::span(tokens).first(text_rows), std::span(own_marks).first(text_rows), starts};
  const MaskingRecipe& recipe = masking_->recipe;
  Draws draws(key_ + static_cast<std::uint64_t>(draw));
  mask_rows(masked, counted(rows), masking_->vocabulary, {recipe.replaced, recipe.random, recipe.whole_words}, draws);
  if (!ids.empty()) std::ranges::copy(tokens, ids.begin());
  if (!marks.empty()) std::ranges::copy(own_marks, marks.begin());
}

double MaskedSamples::weight(std::size_t, std::int64_t first, std::int64_t count) const {
  if (const auto each = weight_of_each(0)) return *each * static_cast<double>(count);
  double sum = 0;
  for (std::int64_t number = first; number < first + count; ++number)
    sum += static_cast<double>(counted(texts_->weight(0, number, 1)));
  return sum;
}

std::optional<double> MaskedSamples::weight_of_each(std::size_t) const {
  const auto rows = texts_->weight_of_each(0);
  return rows ? std::optional<double>(counted(*rows)) : std::nullopt;
}

}  // namespace llmtrain
