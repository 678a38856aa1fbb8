// SPDX-License-Identifier: Apache-2.0
#include "core/data/dataset.h"

#include <cmath>
#include <stdexcept>

#include "core/base/error.h"
#include "core/data/blend.h"
#include "core/data/permutation.h"
#include "core/data/token_source.h"

namespace llmtrain {
namespace {

std::vector<double> checked_weights(const std::vector<DataSource>& sources, const std::string& role) {
  if (sources.empty())
    throw Error(ExitCode::bad_recipe, role + ": contains no source; give at least one {\"path\": …}");
  std::vector<double> weights;
  for (const DataSource& source : sources) {
    if (!(source.weight > 0) || !std::isfinite(source.weight)) {
      throw Error(ExitCode::bad_recipe, role + "/" + std::to_string(weights.size()) + "/weight: is " +
                                            std::to_string(source.weight) + "; a weight must be a positive number");
    }
    weights.push_back(source.weight);
  }
  return weights;
}

// One token more than a sample's input, for the last target.
void check_length(const TokenSource& source, const std::string& path, std::int64_t sequence_length) {
  if (source.tokens() > sequence_length) return;
  throw Error(ExitCode::bad_data, "'" + path + "': holds " + std::to_string(source.tokens()) + " tokens in " +
                                      std::to_string(source.files()) + " files; one sample needs " +
                                      std::to_string(sequence_length + 1) + " (batch.sequence_length + 1)");
}

TokenSource open_source(const DataSource& source, const TokenizerRecipe& tokenizer, std::int64_t sequence_length,
                        std::int64_t vocab_size, const std::string& pointer, MappingBudget& budget) {
  try {
    TokenSource opened(source.path, tokenizer, vocab_size, budget);
    check_length(opened, source.path, sequence_length);
    return opened;
  } catch (const Error& error) {
    // A file's error does not say which source named it.
    throw Error(error.code(), pointer + ": " + error.what());
  }
}

std::uint64_t epoch_key(std::int64_t seed, std::size_t source, std::int64_t epoch) {
  // Mixed one after another: a plain sum of seed, source and epoch would give different triples the same order.
  const std::uint64_t key = mix_bits(mix_bits(static_cast<std::uint64_t>(seed)) + source);
  return mix_bits(key + static_cast<std::uint64_t>(epoch));
}

}  // namespace

struct Dataset::State {
  Blend blend;
  std::vector<TokenSource> sources;
  std::int64_t sequence_length;
  bool shuffle;
  std::int64_t seed;

  // The last token is only ever a target, so n tokens have (n − 1) / T samples.
  std::int64_t samples_of(const TokenSource& source) const { return (source.tokens() - 1) / sequence_length; }

  std::int64_t sample_of(Blend::Choice choice) const {
    const std::int64_t samples = samples_of(sources[choice.source]);
    const std::int64_t place = choice.take % samples;
    if (!shuffle) return place;
    const std::uint64_t key = epoch_key(seed, choice.source, choice.take / samples);
    // Built at each call, from the key alone: no state grows with the data, and a resumed run needs only its position.
    const Permutation order(key, static_cast<std::uint64_t>(samples));
    return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(place)));
  }
};

Dataset::Dataset(const std::vector<DataSource>& sources, const TokenizerRecipe& tokenizer, std::int64_t sequence_length,
                 std::int64_t vocab_size, bool shuffle, std::int64_t seed, const std::string& role) {
  if (sequence_length < 1 || vocab_size < 1) throw std::invalid_argument("sequence length and vocabulary start at 1");
  state_ = std::make_unique<State>(State{Blend(checked_weights(sources, role)), {}, sequence_length, shuffle, seed});
  // Shared by all sources, as the limit is the process's.
  MappingBudget budget;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string pointer = role + "/" + std::to_string(i) + "/path";
    state_->sources.push_back(open_source(sources[i], tokenizer, sequence_length, vocab_size, pointer, budget));
  }
}

Dataset::~Dataset() = default;
Dataset::Dataset(Dataset&&) noexcept = default;

std::int64_t Dataset::samples() const {
  std::int64_t sum = 0;
  for (const TokenSource& source : state_->sources) sum += state_->samples_of(source);
  return sum;
}

std::int64_t Dataset::tokens() const {
  std::int64_t sum = 0;
  for (const TokenSource& source : state_->sources) sum += source.tokens();
  return sum;
}

std::int64_t Dataset::files() const {
  std::int64_t sum = 0;
  for (const TokenSource& source : state_->sources) sum += source.files();
  return sum;
}

void Dataset::read(std::int64_t position, std::span<std::int64_t> tokens) const {
  if (position < 0 || std::ssize(tokens) != state_->sequence_length + 1) {
    throw std::invalid_argument("a sample has a position from 0 and sequence length + 1 tokens");
  }
  const Blend::Choice choice = state_->blend.at(position);
  // Samples do not overlap but for one token: the last target of one is the first input of the next.
  const std::int64_t first = state_->sample_of(choice) * state_->sequence_length;
  state_->sources[choice.source].read(first, tokens);
}

}  // namespace llmtrain
