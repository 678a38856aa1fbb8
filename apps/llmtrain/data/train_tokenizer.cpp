// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/llmtrain/data/data.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/units.h"
#include "core/data/documents.h"
#include "core/data/file_search.h"
#include "core/tokenizer/bpe_trainer.h"

namespace llmtrain::app {
namespace {

struct TrainTokenizerOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string key = document_key;
  BpeTrainingSettings settings;
};

// Counts the words of all files; returns the bytes of text.
std::int64_t count_words(const TrainTokenizerOptions& options, WordCounts& counts) {
  std::int64_t bytes = 0;
  for (const std::string& input : options.inputs) {
    for (const auto& file : find_files(input)) {
      RecordReader reader(file);
      for (Record record; reader.next(record);) {
        const std::string text = document_of(record, file, options.key);
        bytes += static_cast<std::int64_t>(text.size());
        try {
          counts.add(text);
        } catch (const Error& error) {
          throw Error(error.code(), file.string() + ": " + error.what());
        }
      }
    }
  }
  return bytes;
}

int train_tokenizer(const TrainTokenizerOptions& options) {
  std::error_code unknown;
  if (std::filesystem::exists(options.output, unknown))
    throw Error(ExitCode::cannot_write, options.output + ": exists already; name a new file");
  WordCounts counts;
  const std::int64_t bytes = count_words(options, counts);
  if (counts.words().empty())
    throw Error(ExitCode::bad_data, options.inputs.front() + ": holds no text; no file was written");
  const BpeVocabulary vocabulary = train_bpe(counts, options.settings);
  write_file_atomically(options.output, tokenizer_json(vocabulary));
  write_result(fmt::format("{}: {} tokens, {} merges, from {} of text with {} different words\n", options.output,
                           vocabulary.tokens.size(), vocabulary.merges.size(), format_bytes(bytes),
                           counts.words().size()));
  return 0;
}

}  // namespace

void add_train_tokenizer(CLI::App& parent, Action& action) {
  const auto options = std::make_shared<TrainTokenizerOptions>();
  CLI::App* command = parent.add_subcommand("train-tokenizer", "Makes a tokenizer.json (byte-level BPE) from text");
  command->add_option("INPUT", options->inputs, "Files, folders or globs of .txt, .jsonl, and these with .gz or .zst")
      ->required()
      ->type_name("");
  command->add_option("--output", options->output, "The new tokenizer.json")->required()->type_name("FILE");
  command->add_option("--vocab-size", options->settings.vocab_size, "Tokens at most, with bytes and special tokens")
      ->required()
      ->type_name("N")
      ->check(whole_number_not_negative());
  command
      ->add_option("--min-frequency", options->settings.minimum_frequency, "How often a pair occurs to become a token")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number_not_negative());
  command
      ->add_option("--special", options->settings.special_tokens,
                   "A special token, the first ids in this order; repeatable")
      ->type_name("TOKEN")
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--key", options->key, "Key of the documents in JSON Lines")
      ->type_name("KEY")
      ->capture_default_str();
  command->footer("Example:\n  llmtrain data train-tokenizer books/*.txt --vocab-size 8192 --output tokenizer.json");
  command->callback([options, &action] { action = [options] { return train_tokenizer(*options); }; });
}

}  // namespace llmtrain::app
