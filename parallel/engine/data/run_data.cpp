// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/data/run_data.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/token_files/tokenized_sources.h"
#include "parallel/comm/agreement.h"

namespace llmtrain {
namespace {

// Conversations are read with their masks, which token files have no place for, and other examples one by one.
std::vector<std::filesystem::path> tokenized(const Recipe& recipe, const std::vector<DataSource>& sources,
                                             const DataCache& cache, const std::string& role) {
  if (!may_be_tokens(recipe.data)) return {};
  return tokenized_sources(sources, recipe.data.tokenizer, recipe.model.vocab_size, cache, role,
                           recipe.data.on_bad_line);
}

// `role` names the key of the recipe in error messages.
Dataset open_data(const Recipe& recipe, TextFormat format, const std::vector<DataSource>& sources, bool shuffle,
                  const std::string& role, const std::vector<std::filesystem::path>& token_files,
                  const WorkMonitor& monitor) {
  format.tokenized = token_files;
  return {sources, format, recipe.batch.sequence_length, recipe.model.vocab_size, shuffle, recipe.seed, role, monitor};
}

constexpr const char *train_role = "/data/train", *validation_role = "/data/validation";

// `token_files` are those of all entries, or none.
std::vector<ValidationSet> open_validation(const Recipe& recipe, TextFormat format,
                                           const std::vector<std::filesystem::path>& token_files,
                                           const WorkMonitor& monitor) {
  std::vector<ValidationSet> opened;
  format.draws = SampleDraws::fixed;
  format.keeps_targets = recipe.training.generation.has_value();
  for (const ValidationSources& set : validation_sets(recipe.data.validation)) {
    std::vector<std::filesystem::path> tokenized;
    if (!token_files.empty()) {
      const auto first = token_files.begin() + static_cast<std::ptrdiff_t>(set.first_source);
      tokenized.assign(first, first + static_cast<std::ptrdiff_t>(set.sources.size()));
    }
    format.first_source = set.first_source;
    opened.push_back({set, open_data(recipe, format, set.sources, false, validation_role, tokenized, monitor)});
  }
  return opened;
}

}  // namespace

std::string judged_name(const Recipe& recipe) {
  const auto& sources = recipe.data.validation;
  return recipe.training.judged_by.value_or(sources.empty() ? "" : sources.front().name.value_or(""));
}

RunData open_run_data(const Recipe& recipe, const DataCache& cache, const WorkMonitor& monitor) {
  // First, as it may be refused, and tokenising takes long.
  const TextFormat format = text_format(recipe);
  // Both roles before either is tokenised, which may take hours: a mistake in the second should not show after that.
  if (may_be_tokens(recipe.data)) {
    check_sources(recipe.data.train, recipe.data.tokenizer, cache, train_role);
    check_sources(recipe.data.validation, recipe.data.tokenizer, cache, validation_role);
  }
  const auto train = tokenized(recipe, recipe.data.train, cache, train_role);
  const auto validation = tokenized(recipe, recipe.data.validation, cache, validation_role);
  std::vector<std::filesystem::path> used = train;
  used.insert(used.end(), validation.begin(), validation.end());
  remove_other_token_files(cache, used);

  RunData data{open_data(recipe, format, recipe.data.train, recipe.data.shuffle, train_role, train, monitor)};
  if (recipe.data.curriculum.vocabulary_rarity) data.train.order_by_rarity(recipe.data.tokenizer, cache);
  data.validation = open_validation(recipe, format, validation, monitor);
  const auto judged = std::ranges::find(data.validation, judged_name(recipe), &ValidationSet::name);
  if (judged != data.validation.end()) data.judged = static_cast<std::size_t>(judged - data.validation.begin());
  return data;
}

DataCache shared_data_cache(Communicator& communicator, const std::filesystem::path& folder,
                            std::function<bool()> is_asked_to_stop) {
  const auto once = [&communicator, is_asked_to_stop = std::move(is_asked_to_stop)](const auto& make) {
    std::string made;
    run_on_first(communicator, [&](const std::atomic<bool>& is_abandoned) {
      made = make([&] { return is_abandoned || is_asked_to_stop(); });
    });
    return share_text(communicator, made);
  };
  return {folder, once};
}

}  // namespace llmtrain
