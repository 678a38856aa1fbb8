// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/targets/written_targets.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/data/examples/target_texts.h"
#include "core/metrics/text_counts.h"
#include "core/recipe/step_shapes.h"
#include "core/tokenizer/open_tokenizer.h"
#include "parallel/comm/stop_agreement.h"
#include "parallel/engine/generation/generation.h"

namespace llmtrain {
namespace {

// Texts that grow together, beams of one text counted as one each.
constexpr std::int64_t together = 16;

GenerateOptions options_of(const Recipe& recipe, const GenerationRecipe& generation, const TargetTexts& texts) {
  GenerateOptions options;
  // A target's sequence has a row of padding at least.
  options.tokens = target_length(recipe) - 1;
  options.choice.temperature = 0;
  options.decoder_start = texts.decoder_start();
  options.batch = std::max(together, generation.beams);
  if (generation.beams > 1) {
    options.beams.emplace();
    options.beams->beams = generation.beams;
    options.beams->ends = {texts.end()};
  }
  return options;
}

class TargetWriter {
 public:
  TargetWriter(LocalModel& model, const Dataset& data, const GenerationRecipe& generation)
      : model_(model),
        data_(data),
        tokenizer_(open_tokenizer(model.recipe().data.tokenizer, model.recipe().model.vocab_size)),
        texts_(model.recipe().data.tokenizer, *tokenizer_, data.decoder_start()),
        options_(options_of(model.recipe(), generation, texts_)) {}

  // Writes targets of pairs number `first` to before `end`, and counts them.
  void write(std::int64_t first, std::int64_t end) {
    std::vector<std::vector<std::int64_t>> sources;
    std::vector<std::string> references;
    for (std::int64_t number = first; number < end; ++number) {
      Dataset::WrittenPair pair = data_.pair(number);
      sources.emplace_back(pair.source.begin(), pair.source.end());
      references.push_back(std::move(pair.target));
    }
    std::vector<std::vector<std::int64_t>> written(sources.size());
    generate(model_, sources, options_, [&](const TextNumber& text, std::int64_t token) {
      written[static_cast<std::size_t>(text.prompt)].push_back(token);
      return token != texts_.end();
    });
    for (std::size_t i = 0; i < written.size(); ++i) counts_.add(texts_.text_of(written[i]), references[i]);
  }

  const TextCounts& counts() const { return counts_; }

 private:
  LocalModel& model_;
  const Dataset& data_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  TargetTexts texts_;
  GenerateOptions options_;
  TextCounts counts_;
};

// The sum over the ranks that have counted pairs of their own; ranks that write together have all counted the same.
TextCounts sum_of(const TextCounts& own, const RankGroups& groups, bool counts) {
  std::vector<double> numbers = own.numbers();
  if (!counts) std::ranges::fill(numbers, 0);
  const std::vector<double> all = groups.exchange(numbers);
  TextCounts sum;
  for (std::size_t begin = 0; begin < all.size(); begin += numbers.size())
    sum.add_numbers(std::span(all).subspan(begin, numbers.size()));
  return sum;
}

}  // namespace

std::optional<std::vector<Figure>> written_target_figures(LocalModel& model, const Dataset& data, std::int64_t most,
                                                          const GenerationRecipe& generation,
                                                          const EvaluationWatch& watch) {
  const RankGroups& groups = model.groups();
  const bool shares_pairs = model.holds_all_weights();
  const std::int64_t ranks = shares_pairs ? groups.data.ranks() : 1;
  const std::int64_t position = shares_pairs ? groups.data.position() : 0;
  const std::int64_t count = std::min(most, generation.samples);
  TargetWriter writer(model, data, generation);
  StopAgreement agreement(groups.communicator());
  // Every rank takes part in every round, with or without pairs, so that all agree in the same ones.
  for (std::int64_t round = 0; round < count; round += together * ranks) {
    const double share = static_cast<double>(round) / static_cast<double>(count);
    if (agreement.ends([&] { return watch(share); })) return std::nullopt;
    const std::int64_t first = std::min(count, round + together * position);
    writer.write(first, std::min(count, first + together));
  }
  return sum_of(writer.counts(), groups, shares_pairs || groups.is_first()).figures();
}

}  // namespace llmtrain
