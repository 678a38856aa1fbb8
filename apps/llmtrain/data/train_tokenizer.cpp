// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <CLI/CLI.hpp>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/data/data.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/data/file_search.h"
#include "core/data/records/bad_lines.h"
#include "core/data/records/documents.h"
#include "core/tokenizer/bpe_trainer.h"
#include "core/tokenizer_training/sentencepiece_trainer.h"

namespace llmtrain::app {
namespace {

constexpr const char* huggingface = "huggingface";
constexpr const char* sentencepiece_kind = "sentencepiece";

struct TrainTokenizerOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string key = document_key;
  std::string on_bad_line = "stop";
  std::string kind = huggingface;
  std::optional<std::string> algorithm;
  std::int64_t vocab_size = 0;
  std::optional<std::int64_t> minimum_frequency;
  std::optional<double> character_coverage;
  std::optional<std::vector<std::string>> special_tokens;
};

// The documents of all files, one after another; all are UTF-8.
class Documents {
 public:
  explicit Documents(const TrainTokenizerOptions& options)
      : key_(options.key), bad_lines_(policy_of(options.on_bad_line)) {
    for (const std::string& input : options.inputs)
      for (const auto& file : find_files(input)) files_.push_back(file);
  }

  // False where there are no more.
  bool next(std::string& text) {
    Record record;
    std::optional<std::string> document;
    while (!document) {
      while (!reader_ || !bad_lines_.next(*reader_, record)) {
        if (opened_ == files_.size()) return false;
        reader_ = open_document_records(files_[opened_++], key_);
      }
      document = bad_lines_.read([&] { return document_of(record, files_[opened_ - 1], key_); });
    }
    const auto& file = files_[opened_ - 1];
    text = std::move(*document);
    if (!is_utf8(text))
      throw Error(ExitCode::bad_data, file.string() + ": text that is not UTF-8 cannot train a tokenizer");
    bytes_ += static_cast<std::int64_t>(text.size());
    return true;
  }

  // How much text has been read so far.
  std::int64_t bytes() const { return bytes_; }
  const BadLines& bad_lines() const { return bad_lines_; }

 private:
  std::string key_;
  std::vector<std::filesystem::path> files_;
  std::size_t opened_ = 0;
  std::unique_ptr<RecordReader> reader_;
  BadLines bad_lines_;
  std::int64_t bytes_ = 0;
};

[[noreturn]] void refuse_empty(const TrainTokenizerOptions& options) {
  throw Error(ExitCode::bad_data, options.inputs.front() + ": holds no text; no file was written");
}

std::string train_byte_level_bpe(const TrainTokenizerOptions& options, Documents& documents) {
  WordCounts counts;
  for (std::string text; documents.next(text);) counts.add(text);
  if (counts.words().empty()) refuse_empty(options);
  BpeTrainingSettings settings;
  settings.vocab_size = options.vocab_size;
  settings.minimum_frequency = options.minimum_frequency.value_or(settings.minimum_frequency);
  settings.special_tokens = options.special_tokens.value_or(settings.special_tokens);
  const BpeVocabulary vocabulary = train_bpe(counts, settings);
  write_file_atomically(options.output, tokenizer_json(vocabulary));
  return fmt::format("{} tokens, {} merges, from {} of text with {} different words", vocabulary.tokens.size(),
                     vocabulary.merges.size(), format_bytes(documents.bytes()), counts.words().size());
}

std::string train_model(const TrainTokenizerOptions& options, Documents& documents) {
  SentencePieceSettings settings;
  settings.vocab_size = options.vocab_size;
  if (options.algorithm == "bpe") settings.algorithm = SentencePieceAlgorithm::bpe;
  settings.character_coverage = options.character_coverage.value_or(settings.character_coverage);
  settings.special_tokens = options.special_tokens.value_or(settings.special_tokens);
  const std::string model = train_sentencepiece([&](std::string& text) { return documents.next(text); }, settings);
  if (model.empty()) refuse_empty(options);
  write_file_atomically(options.output, model);
  return fmt::format("{} tokens, from {} of text", options.vocab_size, format_bytes(documents.bytes()));
}

// A flag of the other kind would otherwise be ignored.
void check(const TrainTokenizerOptions& options) {
  const bool is_model = options.kind == sentencepiece_kind;
  const auto refuse_flag = [&](const char* flag, bool is_given, const char* kind) {
    if (is_given)
      throw Error(ExitCode::bad_recipe, fmt::format("{}: is for --kind {} alone; leave it out", flag, kind));
  };
  refuse_flag("--min-frequency", is_model && options.minimum_frequency, huggingface);
  refuse_flag("--algorithm", !is_model && options.algorithm == "unigram", sentencepiece_kind);
  refuse_flag("--character-coverage", !is_model && options.character_coverage, sentencepiece_kind);
}

int train_tokenizer(const TrainTokenizerOptions& options) {
  check(options);
  if (entry_exists(options.output))
    throw Error(ExitCode::cannot_write, options.output + ": exists already; name a new file");
  Documents documents(options);
  const std::string made =
      options.kind == sentencepiece_kind ? train_model(options, documents) : train_byte_level_bpe(options, documents);
  for (const std::string& sentence : documents.bad_lines().sentences()) log().warn("{}", sentence);
  write_result(fmt::format("{}: {}\n", options.output, made));
  return 0;
}

void add_settings(CLI::App& command, TrainTokenizerOptions& options) {
  command.add_option("--vocab-size", options.vocab_size, "Tokens at most, with bytes and special tokens")
      ->required()
      ->type_name("N")
      ->check(whole_number_not_negative());
  CLI::Option* kind = command.add_option(
      "--kind", options.kind,
      "huggingface: a tokenizer.json (byte-level BPE); sentencepiece: a .model file, with bytes for what it "
      "has no token for");
  choose_from(kind, {huggingface, sentencepiece_kind})->capture_default_str();
  CLI::Option* algorithm =
      command.add_option("--algorithm", options.algorithm,
                         "bpe, or with --kind sentencepiece its default unigram: a unigram language model");
  choose_from(algorithm, {"bpe", "unigram"});
  command.add_option("--min-frequency", options.minimum_frequency, "How often a pair occurs to become a token (2)")
      ->type_name("N")
      ->check(whole_number_not_negative());
  command
      .add_option("--character-coverage", options.character_coverage,
                  "Share of the text whose characters become tokens of a .model file (0.9995)")
      ->type_name("SHARE")
      ->check(CLI::Range(0.98, 1.0).description(""));
  command
      .add_option("--special", options.special_tokens,
                  "A special token, the first ids in this order (of a .model from 3 on); repeatable (<|endoftext|> for "
                  "a tokenizer.json)")
      ->type_name("TOKEN")
      ->allow_extra_args(false);
}

}  // namespace

void add_train_tokenizer(CLI::App& parent, Action& action) {
  const auto options = std::make_shared<TrainTokenizerOptions>();
  CLI::App* command =
      parent.add_subcommand("train-tokenizer", "Makes a tokenizer.json or a model of SentencePiece from text");
  command->add_option("INPUT", options->inputs, "Files, folders or globs of .txt, .jsonl, and these with .gz or .zst")
      ->required()
      ->type_name("");
  command->add_option("--output", options->output, "The new tokenizer.json or .model file")
      ->required()
      ->type_name("FILE");
  add_settings(*command, *options);
  command->add_option("--key", options->key, "Key of the documents in JSON Lines")
      ->type_name("KEY")
      ->capture_default_str();
  add_on_bad_line(*command, options->on_bad_line);
  command->footer("Example:\n  llmtrain data train-tokenizer books/*.txt --vocab-size 8192 --output tokenizer.json");
  command->callback([options, &action] { action = [options] { return train_tokenizer(*options); }; });
}

}  // namespace llmtrain::app
