// SPDX-License-Identifier: Apache-2.0
#include "core/data/dataset.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/units.h"

namespace llmtrain {
namespace {

std::vector<double> checked_weights(const std::vector<DataSource>& sources, const std::string& role) {
  if (sources.empty())
    throw Error(ExitCode::bad_recipe, role + ": contains no source; give at least one {\"path\": …}");
  std::vector<double> weights;
  for (const DataSource& source : sources) {
    if (!(source.weight > 0) || !std::isfinite(source.weight)) {
      throw Error(ExitCode::bad_recipe, fmt::format("{}/{}/weight: is {:f}; a weight must be a positive number", role,
                                                    weights.size(), source.weight));
    }
    weights.push_back(source.weight);
  }
  return weights;
}

// One token more than a sample's input, for the last target.
void check_length(const TokenSource& source, const std::string& path, std::int64_t sequence_length) {
  if (source.tokens() > sequence_length) return;
  throw Error(
      ExitCode::bad_data,
      fmt::format("'{}': holds {} tokens in {}; one sample needs {} (batch.sequence_length + 1)", path, source.tokens(),
                  format_number_of(static_cast<std::int64_t>(source.files()), "file"), sequence_length + 1));
}

std::uint64_t epoch_key(std::int64_t seed, std::size_t source, std::int64_t epoch) {
  // Mixed one after another: a plain sum of seed, source and epoch would give different triples the same order.
  const std::uint64_t key = mix_bits(mix_bits(static_cast<std::uint64_t>(seed)) + source);
  return mix_bits(key + static_cast<std::uint64_t>(epoch));
}

template <class Source, class Count>
std::int64_t sum_over(const std::vector<Source>& sources, Count count) {
  return std::transform_reduce(sources.begin(), sources.end(), std::int64_t{0}, std::plus<>(), count);
}

}  // namespace

Dataset::Dataset(const std::vector<DataSource>& sources, const TextFormat& format, std::int64_t sequence_length,
                 std::int64_t vocab_size, bool shuffle, std::int64_t seed, const std::string& role)
    : blend_(checked_weights(sources, role)), sequence_length_(sequence_length), shuffle_(shuffle), seed_(seed) {
  if (sequence_length < 1 || vocab_size < 1) throw std::invalid_argument("sequence length and vocabulary start at 1");
  // Shared by all sources, as the limit is the process's.
  MappingBudget budget;
  TextTokens text(format.tokenizer, vocab_size);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string& path = sources[i].path;
    try {
      if (format.fine_tuning) {
        labelled_.push_back(
            LabelledDocuments::open(path, format.tokenizer, *format.fine_tuning, sequence_length, vocab_size));
      } else {
        check_length(sources_.emplace_back(path, text, vocab_size, budget), path, sequence_length);
      }
    } catch (const Error& error) {
      // A file's error does not say which source named it.
      throw Error(error.code(), fmt::format("{}/{}/path: {}", role, i, error.what()));
    }
  }
}

std::int64_t Dataset::samples_of(std::size_t source) const {
  if (is_labelled()) return labelled_[source]->samples();
  // The last token is only ever a target, so n tokens have (n − 1) / T samples.
  return (sources_[source].tokens() - 1) / sequence_length_;
}

std::int64_t Dataset::samples() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < std::max(sources_.size(), labelled_.size()); ++i) sum += samples_of(i);
  return sum;
}

std::int64_t Dataset::tokens() const {
  return sum_over(sources_, std::mem_fn(&TokenSource::tokens)) +
         sum_over(labelled_, [](const auto& documents) { return documents->tokens(); });
}

std::int64_t Dataset::files() const {
  return sum_over(sources_, std::mem_fn(&TokenSource::files)) +
         sum_over(labelled_, [](const auto& documents) { return documents->files(); });
}

Dataset::Place Dataset::place_of(std::int64_t position) const {
  const Blend::Choice choice = blend_.at(position);
  const std::int64_t samples = samples_of(choice.source);
  const std::int64_t sample = choice.take % samples;
  if (!shuffle_) return {choice.source, sample};
  const std::uint64_t key = epoch_key(seed_, choice.source, choice.take / samples);
  // Built at each call, from the key alone: no state grows with the data, and a resumed run needs only its position.
  const Permutation order(key, static_cast<std::uint64_t>(samples));
  return {choice.source, static_cast<std::int64_t>(order(static_cast<std::uint64_t>(sample)))};
}

void Dataset::read(std::int64_t position, std::span<std::int64_t> tokens) const {
  if (is_labelled() || position < 0 || std::ssize(tokens) != sequence_length_ + 1) {
    throw std::invalid_argument("a sample has a position from 0 and sequence length + 1 tokens");
  }
  const Place place = place_of(position);
  // Samples do not overlap but for one token: the last target of one is the first input of the next.
  sources_[place.source].read(place.sample * sequence_length_, tokens);
}

std::vector<DocumentRows> Dataset::read_labelled(std::int64_t position, const LabelledSample& into) const {
  if (!is_labelled() || position < 0 || std::ssize(into.tokens) != sequence_length_ ||
      std::ssize(into.targets) != sequence_length_) {
    throw std::invalid_argument("a labelled sample has a position from 0 and sequence length tokens and targets");
  }
  const Place place = place_of(position);
  return labelled_[place.source]->read(place.sample, into);
}

std::int64_t Dataset::counted(std::int64_t position, std::int64_t count) const {
  if (!is_labelled()) return count * sequence_length_;
  std::int64_t sum = 0;
  for (std::int64_t i = position; i < position + count; ++i) {
    const Place place = place_of(i);
    sum += labelled_[place.source]->counted(place.sample);
  }
  return sum;
}

}  // namespace llmtrain
