// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/pair_samples.h"

#include <stdexcept>
#include <utility>

namespace llmtrain {

PairSamples::PairSamples(std::shared_ptr<const PairTexts> texts, std::int64_t source_length, std::int64_t target_length)
    : texts_(std::move(texts)), rows_({source_length, target_length, texts_->padding(), texts_->decoder_start()}) {}

void PairSamples::read(std::int64_t number, const FieldMemory& into) const {
  if (number < 0 || number >= samples()) throw std::invalid_argument("a pair of texts has a number below their count");
  rows_.check(into);
  const PairTexts::Pair pair = texts_->pair(number);
  rows_.write(pair.source, pair.target, into);
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
