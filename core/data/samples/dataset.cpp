// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/dataset.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/progress_lines.h"
#include "core/base/units.h"
#include "core/data/file_search.h"
#include "core/data/samples/vocabulary_rarity.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

// Token files follow from no tokenizer of the run's.
bool has_text(const TokenSource& source) { return !std::ranges::all_of(source.paths(), is_token_file); }

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

// Where no token ends documents, something else must.
void check_documents(const TokenSource& source, const std::string& path, const TextFormat& format) {
  if (format.document_end != no_token || source.dividers(no_token, 0).are_indexes) return;
  throw Error(ExitCode::bad_data, fmt::format("'{}': has files without an .idx that says where documents begin; "
                                              "data.document_mask.end_of_text must be the id that ends them",
                                              path));
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

std::optional<std::int64_t> document_end(const Recipe& recipe) {
  const auto& mask = recipe.data.document_mask;
  if (!mask) return std::nullopt;
  if (mask->end_of_text) return mask->end_of_text;
  if (recipe.data.tokenizer.kind == TokenizerKind::bytes) return no_token;
  const auto tokenizer = open_tokenizer(recipe.data.tokenizer, recipe.model.vocab_size);
  const std::vector<TokenId>& end = tokenizer->marks().end;
  if (end.size() == 1) return end.front();
  throw Error(
      ExitCode::bad_data,
      fmt::format("{}: puts {} at a document's end; data.document_mask.end_of_text must say which token "
                  "ends one",
                  recipe.data.tokenizer.file, format_number_of(static_cast<std::int64_t>(end.size()), "token")));
}

}  // namespace

TextFormat text_format(const Recipe& recipe) {
  return {recipe.data.tokenizer, recipe.data.fine_tuning, {}, document_end(recipe)};
}

Dataset::Dataset(const std::vector<DataSource>& sources, const TextFormat& format, std::int64_t sequence_length,
                 std::int64_t vocab_size, bool shuffle, std::int64_t seed, const std::string& role,
                 const WorkMonitor& monitor)
    : blend_(checked_weights(sources, role)),
      document_end_(format.document_end),
      sequence_length_(sequence_length),
      vocab_size_(vocab_size),
      shuffle_(shuffle),
      seed_(seed) {
  if (sequence_length < 1 || vocab_size < 1) throw std::invalid_argument("sequence length and vocabulary start at 1");
  // Shared by all sources, as the limit is the process's.
  MappingBudget budget;
  TextTokens text(format.tokenizer, vocab_size);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string& path = sources[i].path;
    try {
      const ReportShare report = monitor.begin("reading " + path);
      if (format.fine_tuning) {
        labelled_.push_back(
            LabelledDocuments::open(path, format.tokenizer, *format.fine_tuning, sequence_length, vocab_size, report));
      } else {
        const std::filesystem::path tokenized = i < format.tokenized.size() ? format.tokenized[i] : "";
        const DocumentStarts starts = format.document_end ? DocumentStarts::known : DocumentStarts::unknown;
        sources_.emplace_back(path, text, vocab_size, budget, tokenized, starts, report);
        check_length(sources_.back(), path, sequence_length);
        check_documents(sources_.back(), path, format);
      }
    } catch (const Error& error) {
      if (error.code() == ExitCode::stopped) throw;
      // A file's error does not say which source named it.
      throw with_key(error, format.tokenizer, role.starts_with("--") ? role : fmt::format("{}/{}/path", role, i));
    }
  }
}

std::int64_t Dataset::samples_of(std::size_t source) const {
  if (is_labelled()) return labelled_[source]->samples();
  // The last token is only ever a target, so n tokens have (n − 1) / T samples.
  return (sources_[source].tokens() - 1) / sequence_length_;
}

std::vector<std::int64_t> Dataset::samples_by_source() const {
  std::vector<std::int64_t> samples;
  for (std::size_t i = 0; i < std::max(sources_.size(), labelled_.size()); ++i) samples.push_back(samples_of(i));
  return samples;
}

std::int64_t Dataset::samples() const {
  const std::vector<std::int64_t> each = samples_by_source();
  return std::accumulate(each.begin(), each.end(), std::int64_t{0});
}

std::int64_t Dataset::tokens() const {
  return sum_over(sources_, std::mem_fn(&TokenSource::tokens)) +
         sum_over(labelled_, [](const auto& documents) { return documents->tokens(); });
}

std::int64_t Dataset::files() const {
  return sum_over(sources_, std::mem_fn(&TokenSource::files)) +
         sum_over(labelled_, [](const auto& documents) { return documents->files(); });
}

void Dataset::order_by_rarity(const TokenizerRecipe& tokenizer, const DataCache& cache) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const TokenSource& source = sources_[i];
    const std::string key =
        fmt::format("vocabulary rarity of {} of {} tokens{}\n{}", sequence_length_, source.tokens(),
                    has_text(source) ? ", tokenizer " + hash_of_tokenizer(tokenizer) : "", versions_of(source.paths()));
    orders_.push_back(
        cached_order(cache, fmt::format("vocabulary-rarity-{}", i), key, [&](const DataCache::Stops& stops) {
          const std::string samples = fmt::format("vocabulary rarity of {} samples", samples_of(i));
          ProgressLines lines(samples);
          const auto show_or_stop = [&](double share) {
            if (stops()) throw stopped_while("reading the " + samples);
            lines.show(share);
          };
          show_or_stop(0);  // later only as often as this thread has a part of the work
          return vocabulary_rarity(source, sequence_length_, vocab_size_, show_or_stop);
        }));
    // Of the process that made it: another one may find other files at the same place.
    if (orders_.back().samples() != samples_of(i))
      throw Error(
          ExitCode::bad_data,
          fmt::format("/data/train/{}/path: {} has {} samples here, {} on the first rank, which has ordered them "
                      "by their rarity; all ranks read the same files",
                      i, source.paths().front().string(), samples_of(i), orders_.back().samples()));
  }
}

std::int64_t Dataset::easy_sample(const Blend::Choice& choice, std::int64_t easiest_percent) const {
  const DifficultyOrder& order = orders_.at(choice.source);
  const std::int64_t easiest = std::max<std::int64_t>(1, order.samples() * easiest_percent / 100);
  const std::int64_t rank = choice.take % easiest;
  if (!shuffle_) return order.sample(rank);
  const std::uint64_t of_epoch = epoch_key(seed_, choice.source, choice.take / easiest);
  const auto count = static_cast<std::uint64_t>(easiest);
  // Of another key than other numbers of samples: a share that grows would otherwise keep a part of its order.
  const Permutation shuffled(mix_bits(of_epoch + count), count);
  return order.sample(static_cast<std::int64_t>(shuffled(static_cast<std::uint64_t>(rank))));
}

Dataset::Place Dataset::place_of(std::int64_t position, std::int64_t easiest_percent) const {
  const Blend::Choice choice = blend_.at(position);
  if (easiest_percent < 100) return {choice.source, easy_sample(choice, easiest_percent)};
  const std::int64_t samples = samples_of(choice.source);
  const std::int64_t sample = choice.take % samples;
  if (!shuffle_) return {choice.source, sample};
  const std::uint64_t key = epoch_key(seed_, choice.source, choice.take / samples);
  // Built at each call, from the key alone: no state grows with the data, and a resumed run needs only its position.
  const Permutation order(key, static_cast<std::uint64_t>(samples));
  return {choice.source, static_cast<std::int64_t>(order(static_cast<std::uint64_t>(sample)))};
}

void Dataset::read(std::int64_t position, std::span<std::int64_t> tokens, std::int64_t easiest_percent) const {
  if (is_labelled() || position < 0 || std::ssize(tokens) != sequence_length_ + 1) {
    throw std::invalid_argument("a sample has a position from 0 and sequence length + 1 tokens");
  }
  const Place place = place_of(position, easiest_percent);
  // Samples do not overlap but for one token: the last target of one is the first input of the next.
  const TokenSource& source = sources_[place.source];
  source.read(place.sample * sequence_length_, tokens);
  const auto invalid =
      std::find_if(tokens.begin(), tokens.end(), [this](std::int64_t id) { return id < 0 || id >= vocab_size_; });
  if (invalid == tokens.end()) return;
  throw Error(ExitCode::bad_data,
              fmt::format("{} has the id {}, which is not below model.vocab_size ({}) and was not there when the file "
                          "was opened: files of tokens must not change while they are read",
                          source.place_of(place.sample * sequence_length_ + (invalid - tokens.begin())), *invalid,
                          vocab_size_));
}

void Dataset::mark_documents(std::int64_t position, std::span<const std::int64_t> tokens,
                             std::span<std::int64_t> starts, std::int64_t easiest_percent) const {
  const Place place = place_of(position, easiest_percent);
  sources_[place.source].mark_documents(place.sample * sequence_length_, document_end_.value(), tokens, starts);
}

std::vector<std::vector<std::filesystem::path>> Dataset::paths() const {
  std::vector<std::vector<std::filesystem::path>> paths;
  for (const TokenSource& source : sources_) paths.push_back(source.paths());
  for (const auto& documents : labelled_) paths.push_back(documents->paths());
  return paths;
}

std::vector<TokenSource::Dividers> Dataset::dividers(std::int64_t most) const {
  std::vector<TokenSource::Dividers> found;
  for (const TokenSource& source : sources_) found.push_back(source.dividers(document_end_.value(), most));
  return found;
}

std::vector<Dataset::Packed> Dataset::packed() const {
  std::vector<Packed> packed;
  for (const auto& documents : labelled_) packed.push_back({documents->documents(), documents->samples()});
  return packed;
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
