// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/dataset.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/progress_lines.h"
#include "core/base/units.h"
#include "core/data/denoising/denoised_samples.h"
#include "core/data/examples/labelled_text_samples.h"
#include "core/data/examples/padded_texts.h"
#include "core/data/examples/pair_samples.h"
#include "core/data/file_search.h"
#include "core/data/images/image_samples.h"
#include "core/data/masking/masked_samples.h"
#include "core/data/samples/labelled_samples.h"
#include "core/data/samples/token_samples.h"
#include "core/data/samples/vocabulary_rarity.h"
#include "core/data/spans/span_samples.h"
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

std::unique_ptr<FileSamples> open_pairs(const std::string& path, const TextFormat& format,
                                        const TokenSampleFormat& samples, const ReportShare& report) {
  const std::int64_t source = samples.sequence_length, target = format.pairs->target_length.value_or(source);
  // Less the row of padding that each sequence has.
  const PairFiles files{path,       format.tokenizer,   *format.pairs,      source - 1,
                        target - 1, samples.vocab_size, format.on_bad_line, format.keeps_targets};
  return std::make_unique<PairSamples>(PairTexts::open(files, report), source, target);
}

// What is drawn for a source's samples follows from this, apart from its order.
std::uint64_t drawing_key(SampleDraws draws, std::int64_t seed, std::size_t source) {
  const std::uint64_t of_run = draws == SampleDraws::fixed ? 0 : static_cast<std::uint64_t>(seed);
  return mix_bits(mix_bits(~of_run) + source);
}

std::unique_ptr<FileSamples> open_images(const std::string& path, const ImageFormat& format, std::int64_t rows,
                                         std::uint64_t key) {
  return std::make_unique<ImageSamples>(list_images(path, format.recipe.classes), view_of(format.recipe, format.size),
                                        rows, key);
}

// The samples of one of the recipe's sources as their files have them. A format of other samples is one more case here.
std::unique_ptr<FileSamples> open_samples(const std::string& path, const std::filesystem::path& tokenized,
                                          const TextFormat& format, const TokenSampleFormat& samples, TextTokens& text,
                                          MappingBudget& budget, const ReportShare& report) {
  if ((format.masking && format.masking->recipe.single_texts) ||
      (format.denoising && format.denoising->recipe.single_texts))
    return std::make_unique<PaddedTexts>(
        TextExamples::open(
            {path, format.tokenizer, text.key(), samples.sequence_length, samples.vocab_size, format.on_bad_line},
            report),
        samples.sequence_length);
  if (format.labels)
    return std::make_unique<LabelledTextSamples>(
        LabelledTexts::open(
            {path, format.tokenizer, *format.labels, samples.sequence_length, samples.vocab_size, format.on_bad_line},
            report),
        samples.sequence_length);
  if (format.pairs) return open_pairs(path, format, samples, report);
  if (format.spans)
    return std::make_unique<SpanSamples>(
        SpanTexts::open(
            {path, format.tokenizer, *format.spans, samples.sequence_length, samples.vocab_size, format.on_bad_line},
            report),
        samples.sequence_length);
  if (format.fine_tuning)
    return std::make_unique<LabelledSamples>(
        LabelledDocuments::open(path, format.tokenizer, *format.fine_tuning, samples.sequence_length,
                                {samples.vocab_size, format.routed}, format.on_bad_line, report),
        format.fine_tuning->packing, samples.sequence_length);
  const DocumentStarts starts = samples.document_end ? DocumentStarts::known : DocumentStarts::unknown;
  return std::make_unique<TokenSamples>(TokenSource(path, text, samples.vocab_size, budget, tokenized, starts, report),
                                        samples, path);
}

// Tokens of the texts that samples are made of, of single ones the marks around them included.
std::int64_t text_length(const TextFormat& format, std::int64_t sequence_length) {
  if (!format.denoising) return sequence_length;
  return format.denoising->longest + (format.denoising->recipe.single_texts ? format.denoising->marks() : 0);
}

std::uint64_t epoch_key(std::int64_t seed, std::size_t source, std::int64_t epoch) {
  // Mixed one after another: a plain sum of seed, source and epoch would give different triples the same order.
  const std::uint64_t key = mix_bits(mix_bits(static_cast<std::uint64_t>(seed)) + source);
  return mix_bits(key + static_cast<std::uint64_t>(epoch));
}

template <class Count>
std::int64_t sum_over(const std::vector<std::unique_ptr<FileSamples>>& sources, Count count) {
  return std::transform_reduce(sources.begin(), sources.end(), std::int64_t{0}, std::plus<>(),
                               [&](const auto& source) { return count(*source); });
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
  TextFormat format;
  format.tokenizer = recipe.data.tokenizer;
  format.fine_tuning = recipe.data.fine_tuning;
  format.document_end = document_end(recipe);
  format.on_bad_line = recipe.data.on_bad_line;
  format.masking = masking_of(recipe);
  format.denoising = denoising_of(recipe);
  format.labels = recipe.data.labels;
  format.pairs = recipe.data.pairs;
  format.spans = recipe.data.spans;
  format.routed = replayed_layers(recipe);
  if (recipe.data.images) format.images = {*recipe.data.images, recipe.model.image.value().size};
  return format;
}

std::string name_of_source(const std::string& role, std::size_t index) {
  return role.starts_with("--") ? role : fmt::format("{}/{}/path", role, index);
}

Dataset::Dataset(const std::vector<DataSource>& sources, const TextFormat& format, std::int64_t sequence_length,
                 std::int64_t vocab_size, bool shuffle, std::int64_t seed, const std::string& role,
                 const WorkMonitor& monitor)
    : blend_(checked_weights(sources, role)),
      document_end_(format.document_end),
      sequence_length_(sequence_length),
      vocab_size_(vocab_size),
      shuffle_(shuffle),
      seed_(seed),
      draws_(format.draws) {
  if (sequence_length < 1 || vocab_size < 1) throw std::invalid_argument("sequence length and vocabulary start at 1");
  // Shared by all sources, as the limit is the process's.
  MappingBudget budget;
  // Sources with the same key share a tokenizer.
  std::map<std::string, TextTokens> texts;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string& path = sources[i].path;
    try {
      const ReportShare report = monitor.begin("reading " + path);
      const std::filesystem::path tokenized = i < format.tokenized.size() ? format.tokenized[i] : "";
      const std::string& key = text_keys_.emplace_back(sources[i].text_key);
      TextTokens& text = texts.try_emplace(key, format.tokenizer, vocab_size, format.on_bad_line, key).first->second;
      const std::uint64_t key_of_draws = drawing_key(format.draws, seed, i);
      if (format.images) {
        sources_.push_back(open_images(path, *format.images, sequence_length, key_of_draws));
        continue;
      }
      const TokenSampleFormat shape{text_length(format, sequence_length), vocab_size, format.document_end};
      auto samples = open_samples(path, tokenized, format, shape, text, budget, report);
      if (format.masking) samples = std::make_unique<MaskedSamples>(std::move(samples), format.masking, key_of_draws);
      if (format.denoising)
        samples = std::make_unique<DenoisedSamples>(std::move(samples), format.denoising, key_of_draws);
      sources_.push_back(std::move(samples));
    } catch (const Error& error) {
      if (error.code() == ExitCode::stopped) throw;
      // A file's error does not say which source named it.
      throw with_key(error, format.tokenizer, name_of_source(role, format.first_source + i));
    }
  }
}

std::vector<std::int64_t> Dataset::samples_by_source() const {
  std::vector<std::int64_t> samples;
  for (const auto& source : sources_) samples.push_back(source->samples());
  return samples;
}

std::vector<std::int64_t> Dataset::tokens_by_source() const {
  std::vector<std::int64_t> tokens;
  for (const auto& source : sources_) tokens.push_back(source->tokens());
  return tokens;
}

std::int64_t Dataset::samples() const { return sum_over(sources_, std::mem_fn(&FileSamples::samples)); }

std::int64_t Dataset::tokens() const { return sum_over(sources_, std::mem_fn(&FileSamples::tokens)); }

std::int64_t Dataset::files() const {
  return sum_over(sources_, [](const FileSamples& source) { return static_cast<std::int64_t>(source.paths().size()); });
}

void Dataset::order_by_rarity(const TokenizerRecipe& tokenizer, const DataCache& cache) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const TokenSource& source = dynamic_cast<const TokenSamples&>(*sources_[i]).source();
    const std::int64_t samples_here = sources_[i]->samples();
    const std::string key =
        fmt::format("vocabulary rarity of {} of {} tokens{}{}\n{}", sequence_length_, source.tokens(),
                    has_text(source) ? ", tokenizer " + hash_of_tokenizer(tokenizer) : "",
                    text_keys_[i] == document_key ? "" : ", texts at " + text_keys_[i], versions_of(source.paths()));
    orders_.push_back(
        cached_order(cache, fmt::format("vocabulary-rarity-{}", i), key, [&](const DataCache::Stops& stops) {
          const std::string samples = fmt::format("vocabulary rarity of {} samples", samples_here);
          ProgressLines lines(samples);
          const auto show_or_stop = [&](double share) {
            if (stops()) throw stopped_while("reading the " + samples);
            lines.show(share);
          };
          show_or_stop(0);  // later only as often as this thread has a part of the work
          return vocabulary_rarity(source, sequence_length_, vocab_size_, show_or_stop);
        }));
    // The order may come from another process, which may have found other files at the same place.
    if (orders_.back().samples() != samples_here)
      throw Error(
          ExitCode::bad_data,
          fmt::format("/data/train/{}/path: {} has {} samples here, {} on the first rank, which has ordered them "
                      "by their rarity; all ranks read the same files",
                      i, source.paths().front().string(), samples_here, orders_.back().samples()));
  }
}

std::int64_t Dataset::easy_sample(const Blend::Choice& choice, std::int64_t easiest_percent) const {
  const DifficultyOrder& order = orders_.at(choice.source);
  const std::int64_t easiest = std::max<std::int64_t>(1, order.samples() * easiest_percent / 100);
  const std::int64_t rank = choice.take % easiest;
  if (!shuffle_) return order.sample(rank);
  const std::uint64_t of_epoch = epoch_key(seed_, choice.source, choice.take / easiest);
  const auto count = static_cast<std::uint64_t>(easiest);
  // Each number of samples is shuffled with a key of its own: a share that grows would otherwise keep a part of its
  // order.
  const Permutation shuffled(mix_bits(of_epoch + count), count);
  return order.sample(static_cast<std::int64_t>(shuffled(static_cast<std::uint64_t>(rank))));
}

Dataset::Place Dataset::place_of(std::int64_t number, std::int64_t easiest_percent) const {
  const Blend::Choice choice = blend_.at(number);
  if (easiest_percent < 100) return {choice.source, easy_sample(choice, easiest_percent), choice.take};
  const std::int64_t samples = sources_[choice.source]->samples();
  const std::int64_t sample = choice.take % samples;
  if (!shuffle_) return {choice.source, sample, choice.take};
  const std::uint64_t key = epoch_key(seed_, choice.source, choice.take / samples);
  // Built at each call, from the key alone: no state grows with the data, and a resumed run needs only its position.
  const Permutation order(key, static_cast<std::uint64_t>(samples));
  return {choice.source, static_cast<std::int64_t>(order(static_cast<std::uint64_t>(sample))), choice.take};
}

void Dataset::read_easiest(std::int64_t percent, std::int64_t number, const FieldMemory& into) const {
  if (number < 0) throw std::invalid_argument("samples have numbers from 0");
  const Place place = place_of(number, percent);
  const FileSamples& source = *sources_[place.source];
  if (draws_ == SampleDraws::fixed)
    source.read(place.sample, into);
  else
    source.read_drawn(place.sample, place.draw, into);
}

double Dataset::weight_of_easiest(std::int64_t percent, std::size_t term, std::int64_t first,
                                  std::int64_t count) const {
  const std::optional<double> each = sources_.front()->weight_of_each(term);
  if (each) return *each * static_cast<double>(count);
  double sum = 0;
  for (std::int64_t number = first; number < first + count; ++number) {
    const Place place = place_of(number, percent);
    sum += sources_[place.source]->weight(term, place.sample, 1);
  }
  return sum;
}

std::vector<std::vector<std::filesystem::path>> Dataset::paths() const {
  std::vector<std::vector<std::filesystem::path>> paths;
  for (const auto& source : sources_) paths.push_back(source->paths());
  return paths;
}

std::vector<TokenSource::Dividers> Dataset::dividers(std::int64_t most) const {
  std::vector<TokenSource::Dividers> found;
  for (const auto& source : sources_)
    if (const auto* const tokens = dynamic_cast<const TokenSamples*>(&source->origin()))
      found.push_back(tokens->source().dividers(document_end_.value(), most));
  return found;
}

std::vector<LeftOut> Dataset::left_out() const {
  std::vector<LeftOut> left_out;
  for (const auto& source : sources_) {
    if (const auto* const labelled = dynamic_cast<const LabelledSamples*>(source.get())) {
      left_out.push_back(labelled->documents().left_out());
    } else if (const auto* const tokens = dynamic_cast<const TokenSamples*>(&source->origin())) {
      left_out.push_back({tokens->source().bad_lines()});
    } else if (const auto* const texts = dynamic_cast<const PaddedTexts*>(&source->origin())) {
      left_out.push_back({texts->texts().bad_lines(), texts->texts().truncated()});
    } else if (const auto* const with_labels = dynamic_cast<const LabelledTextSamples*>(source.get())) {
      left_out.push_back({with_labels->texts().bad_lines(), with_labels->texts().truncated()});
      left_out.back().without_words = with_labels->texts().without_words();
    } else if (const auto* const pairs = dynamic_cast<const PairSamples*>(source.get())) {
      left_out.push_back({pairs->texts().bad_lines()});
      left_out.back().cut_pairs = pairs->texts().truncated();
      left_out.back().without_words = pairs->texts().without_words();
    } else if (const auto* const spans = dynamic_cast<const SpanSamples*>(source.get())) {
      left_out.push_back({spans->texts().bad_lines()});
      left_out.back().without_words = spans->texts().without_words();
    } else {
      left_out.emplace_back();
    }
  }
  return left_out;
}

Dataset::WrittenPair Dataset::pair(std::int64_t number) const {
  const Place place = place_of(number, 100);
  const PairTexts& texts = dynamic_cast<const PairSamples&>(*sources_[place.source]).texts();
  return {texts.pair(place.sample).source, texts.written_target(place.sample)};
}

bool Dataset::has_questions() const { return dynamic_cast<const SpanSamples*>(sources_.front().get()) != nullptr; }

Dataset::QuestionPlace Dataset::question(std::int64_t number) const {
  const Place place = place_of(number, 100);
  return {&dynamic_cast<const SpanSamples&>(*sources_[place.source]).texts(), place.sample};
}

std::int64_t Dataset::decoder_start() const {
  return dynamic_cast<const PairSamples&>(*sources_.front()).texts().decoder_start();
}

std::vector<Dataset::Packed> Dataset::packed() const {
  std::vector<Packed> packed;
  for (const auto& source : sources_)
    if (const auto* const labelled = dynamic_cast<const LabelledSamples*>(source.get()))
      packed.push_back({labelled->documents().documents(), labelled->samples()});
  return packed;
}

}  // namespace llmtrain
