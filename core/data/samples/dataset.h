// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/conversations/rollout_row.h"
#include "core/data/data_cache.h"
#include "core/data/denoising/denoising.h"
#include "core/data/masking/masking_vocabulary.h"
#include "core/data/samples/difficulty_order.h"
#include "core/data/samples/file_samples.h"
#include "core/data/samples/left_out.h"
#include "core/data/samples/sample_order.h"
#include "core/data/samples/sample_source.h"
#include "core/data/spans/span_texts.h"
#include "core/data/token_source.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Whether what is drawn for a sample follows from the run's seed, and differs each time it is read; or is always the
// same, as evaluations need it to be compared with each other.
enum class SampleDraws { by_seed, fixed };

// Images of classes, and the side of those that a model reads.
struct ImageFormat {
  ImagesRecipe recipe{};
  std::int64_t size = 0;
};

// How files of text are read, or images.
struct TextFormat {
  TokenizerRecipe tokenizer{};
  std::optional<FineTuningRecipe> fine_tuning{};  // files are conversations, and samples are labelled
  // By source, token files that have been made of their text (core/token_files/tokenized_sources.h); an empty path, or
  // no list: none.
  std::vector<std::filesystem::path> tokenized{};
  // The token that ends a document where attention stays within documents, or no_token: all files have indexes.
  std::optional<std::int64_t> document_end{};
  OnBadLine on_bad_line = OnBadLine::stop;
  std::size_t first_source = 0;                  // where the recipe's list has the first of the sources, for messages
  std::shared_ptr<const Masking> masking{};      // some tokens of the texts are hidden
  std::shared_ptr<const Denoising> denoising{};  // the texts are damaged
  std::optional<PairsRecipe> pairs{};            // each text is to be made of another one
  bool keeps_targets = false;                    // of pairs, as they are written: Dataset::pair()
  std::optional<LabelsRecipe> labels{};          // the texts have labels
  std::optional<SpansRecipe> spans{};            // the texts answer questions
  std::optional<ImageFormat> images{};           // there are no texts
  std::optional<RoutedLayers> routed{};          // of which conversations tell the experts of their tokens
  SampleDraws draws = SampleDraws::by_seed;
};

// What the recipe says of it. Throws what open_tokenizer() does, where data.document_mask asks for the tokenizer's
// mark, and Error(bad_data) where that is not one token; and what masking_of() and
// denoising_of() throw.
TextFormat text_format(const Recipe& recipe);

// What names a source in messages: "<role>/<index>/path", where `role` is for example "/data/train", or the role where
// that is a flag.
std::string name_of_source(const std::string& role, std::size_t index);

// The samples of the sources that a recipe names, in an order without end: a blend of the sources by their weights,
// each in its own order, which is shuffled anew in each epoch. core/data/file_search.h describes what a source's path
// may name, core/data/token_source.h the file formats. Files are mapped and must not change while the object lives.
class Dataset final : public SampleSource {
 public:
  // Opens, maps and checks every file of `sources`. Throws Error(missing_input) when a path or glob matches nothing,
  // Error(bad_data) when a file is malformed, holds a token id that is not below `vocab_size`, or when a source is
  // shorter than one sample, and Error(bad_recipe) when there is no source or a weight is not positive; with text also
  // what open_tokenizer() throws, and what the monitor's reports throw. Messages begin with name_of_source().
  Dataset(const std::vector<DataSource>& sources, const TextFormat& format, std::int64_t sequence_length,
          std::int64_t vocab_size, bool shuffle, std::int64_t seed, const std::string& role,
          const WorkMonitor& monitor = {});

  // Makes the samples' order of vocabulary rarity, or finds it in the cache; from then on positions can be read from
  // the easiest samples. Each source has an order of its own, so that weights hold at all times. Not for labelled
  // samples. Throws what cached_order() does.
  void order_by_rarity(const TokenizerRecipe& tokenizer, const DataCache& cache);

  // Those of the sources, which all have the same.
  std::span<const SampleField> fields() const override { return sources_.front()->fields(); }
  std::span<const SampleSequence> sequences() const override { return sources_.front()->sequences(); }
  // Samples of one pass over all sources: the sum of theirs. With one source, numbers 0 … samples() − 1 visit each
  // sample once; a blend repeats samples of a source whose weight exceeds its share.
  std::int64_t samples() const override;
  std::vector<std::int64_t> samples_by_source() const;
  std::vector<std::int64_t> tokens_by_source() const;
  // Tokens and files of all sources; of conversations the tokens that samples hold.
  std::int64_t tokens() const;
  std::int64_t files() const;

  // FileSamples::restores_tokens() of all sources.
  bool restores_tokens() const { return sources_.front()->restores_tokens(); }
  // The token that ends a document where attention stays within documents.
  std::optional<std::int64_t> document_end() const { return document_end_; }

  // By source, what find_files() has found.
  std::vector<std::vector<std::filesystem::path>> paths() const;
  // Where attention stays within documents, by source.
  std::vector<TokenSource::Dividers> dividers(std::int64_t most) const;
  // What was left out, by source.
  std::vector<LeftOut> left_out() const;
  // How many documents share how many samples, in a source of conversations.
  struct Packed {
    std::int64_t documents = 0;
    std::int64_t samples = 0;
  };
  std::vector<Packed> packed() const;

  // The documents of a sample, in the order of read(), without padding. Of text and token files it is one, unless
  // attention stays within documents.
  std::vector<DocumentRows> documents_of(std::int64_t number) const {
    const Place place = place_of(number, 100);
    return sources_[place.source]->documents_of(place.sample);
  }

  // What the encoder reads of a pair, and what its file has as target, where TextFormat::keeps_targets. The
  // tokens live as long as the dataset.
  struct WrittenPair {
    std::span<const TokenId> source;
    std::string target;
  };
  WrittenPair pair(std::int64_t number) const;
  // Which window of which texts a sample is, where these answer questions.
  struct QuestionPlace {
    const SpanTexts* texts = nullptr;
    std::int64_t window = 0;
  };
  bool has_questions() const;
  QuestionPlace question(std::int64_t number) const;
  // The id after which targets of pairs are predicted.
  std::int64_t decoder_start() const;

  void read(std::int64_t number, const FieldMemory& into) const override { read_easiest(100, number, into); }
  double weight(std::size_t term, std::int64_t first, std::int64_t count) const override {
    return weight_of_easiest(100, term, first, count);
  }
  // With less than 100 percent, after order_by_rarity(), another order: of a source with n samples it has the n ·
  // percent / 100 easiest ones alone, rounded down and at least one, each once before any is there again. It is
  // shuffled anew for each such number, and whenever all of them have been read; without shuffle the easiest come
  // first.
  void read_easiest(std::int64_t percent, std::int64_t number, const FieldMemory& into) const;
  double weight_of_easiest(std::int64_t percent, std::size_t term, std::int64_t first, std::int64_t count) const;

 private:
  // A sample of one of the sources.
  struct Place {
    std::size_t source = 0;
    std::int64_t sample = 0;
    std::int64_t draw = 0;  // how many samples of the source come before it in the order
  };
  Place place_of(std::int64_t number, std::int64_t easiest_percent) const;
  std::int64_t easy_sample(const Blend::Choice& choice, std::int64_t easiest_percent) const;

  Blend blend_;
  std::vector<std::unique_ptr<FileSamples>> sources_;  // of one kind
  std::vector<std::string> text_keys_;                 // of sources_
  std::vector<DifficultyOrder> orders_;                // of sources_, or empty
  std::optional<std::int64_t> document_end_;
  std::int64_t sequence_length_, vocab_size_;
  bool shuffle_;
  std::int64_t seed_;
  SampleDraws draws_;
};

}  // namespace llmtrain
