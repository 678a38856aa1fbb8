// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/step_samples.h"

#include <algorithm>
#include <stdexcept>

namespace llmtrain {

StepSamples::StepSamples(const Dataset& data, const BatchRecipe& batch, const BatchPlace& place)
    : data_(data),
      batch_(batch),
      place_(place),
      sequences_(data.sequences().begin(), data.sequences().end()),
      fields_(data.fields().begin(), data.fields().end()) {
  if (!is_cut()) return;
  if (!std::ranges::all_of(sequences_, &SampleSequence::can_be_cut))
    throw std::invalid_argument("samples are to be cut to other lengths, and cannot be");
  for (SampleSequence& sequence : sequences_) sequence.length = place.shape.sequence_length;
  for (SampleField& field : fields_)
    if (field.sequence) field.shape.front() = place.shape.sequence_length;
}

StepSamples::Place StepSamples::place_of(std::int64_t number) const {
  const std::int64_t sequences = place_.shape.sequences, length = place_.shape.sequence_length;
  const std::int64_t first = place_.first_sample + number / sequences * batch_.micro, here = number % sequences;
  if (sequences == batch_.micro) return {first + here, 0};
  const std::int64_t whole = batch_.sequence_length, each = whole / length, filled = batch_.micro * each;
  if (here < filled) return {first + here / each, here % each * length};
  return {first + here - filled, whole - length};
}

void StepSamples::read(std::int64_t number, const FieldMemory& into) const {
  const Place place = place_of(number);
  FieldMemory part = into;
  part.first_row = place.row;
  data_.read_easiest(place_.easiest_percent, place.sample, part);
}

double StepSamples::weight(std::size_t term, std::int64_t first, std::int64_t count) const {
  if (is_cut()) return static_cast<double>(count * place_.shape.sequence_length);
  return data_.weight_of_easiest(place_.easiest_percent, term, place_.first_sample + first, count);
}

}  // namespace llmtrain
