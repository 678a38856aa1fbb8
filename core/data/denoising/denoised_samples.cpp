// SPDX-License-Identifier: Apache-2.0
#include "core/data/denoising/denoised_samples.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace llmtrain {

DenoisedSamples::DenoisedSamples(std::unique_ptr<FileSamples> texts, std::shared_ptr<const Denoising> denoising,
                                 std::uint64_t key)
    : texts_(std::move(texts)),
      denoising_(std::move(denoising)),
      key_(key),
      rows_({denoising_->source_length, denoising_->target_length, denoising_->padding, denoising_->decoder_start}) {}

// Tokens of a sample's text, without marks around it.
std::int64_t DenoisedSamples::length(std::int64_t number) const {
  if (!denoising_->recipe.single_texts) return denoising_->longest;
  return static_cast<std::int64_t>(texts_->weight(0, number, 1)) - denoising_->marks();
}

std::int64_t DenoisedSamples::target_tokens(std::int64_t length) const {
  const bool are_spans = denoising_->recipe.noise == Noise::spans;
  return denoising_->marks() + (are_spans ? span_counts(denoising_->recipe, length).target : length);
}

DamagedText DenoisedSamples::damaged(std::span<const std::int64_t> text, std::int64_t draw) const {
  const DenoisingRecipe& recipe = denoising_->recipe;
  Draws draws(key_ + static_cast<std::uint64_t>(draw));
  if (recipe.noise == Noise::spans)
    return with_spans(text, span_counts(recipe, std::ssize(text)), denoising_->sentinels, draws);
  std::vector<std::int64_t> source(text.begin(), text.end());
  if (recipe.permute_sentences) {
    std::vector<SentenceRow> rows;
    for (const std::int64_t id : source) rows.push_back(denoising_->rows.at(static_cast<std::size_t>(id)));
    source = permuted(source, rows, draws);
  }
  const double share = noise_share(recipe) * static_cast<double>(text.size());
  const auto noise = std::clamp<std::int64_t>(std::llround(share), 1, std::ssize(text));
  return {infilled(source, noise, recipe.mean_span, denoising_->mask, draws), {text.begin(), text.end()}};
}

void DenoisedSamples::read_drawn(std::int64_t number, std::int64_t draw, const FieldMemory& into) const {
  if (number < 0 || number >= samples()) throw std::invalid_argument("a damaged text has a number below their count");
  rows_.check(into);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(texts_->sequences().front().length));
  FieldMemory memory;
  memory.set(BatchField::token_ids, std::span(tokens));
  texts_->read(number, memory);
  const std::size_t first = denoising_->recipe.single_texts ? denoising_->before.size() : 0;
  const auto text = std::span(tokens).subspan(first, static_cast<std::size_t>(length(number)));
  DamagedText pair = damaged(text, draw);
  for (std::vector<std::int64_t>* side : {&pair.source, &pair.target}) {
    side->insert(side->begin(), denoising_->before.begin(), denoising_->before.end());
    side->insert(side->end(), denoising_->behind.begin(), denoising_->behind.end());
  }
  rows_.write(pair.source, pair.target, into);
}

double DenoisedSamples::weight(std::size_t term, std::int64_t first, std::int64_t count) const {
  if (const auto each = weight_of_each(term)) return *each * static_cast<double>(count);
  double sum = 0;
  for (std::int64_t number = first; number < first + count; ++number)
    sum += static_cast<double>(target_tokens(length(number)));
  return sum;
}

std::optional<double> DenoisedSamples::weight_of_each(std::size_t) const {
  if (denoising_->recipe.single_texts) return std::nullopt;
  return static_cast<double>(target_tokens(denoising_->longest));
}

}  // namespace llmtrain
