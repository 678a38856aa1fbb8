// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <CLI/CLI.hpp>

#include <array>
#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/llmtrain/data/data.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/elapsed_time.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/progress_lines.h"
#include "core/base/units.h"
#include "core/data/file_search.h"
#include "core/data/records/documents.h"
#include "core/machine/processor.h"
#include "core/recipe/enum_words.h"
#include "core/token_files/tokenize_files.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain::app {
namespace {

struct TokenizeOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string tokenizer = "bytes";
  std::string format = "megatron";
  std::string key = document_key;
  std::string on_bad_line = "stop";
  int threads = 0;
};

// In the order of the enum.
constexpr std::array<std::string_view, 3> format_words = {"megatron", "nanogpt", "llm.c"};

std::int64_t per_second(std::int64_t bytes, double seconds) {
  return static_cast<std::int64_t>(static_cast<double>(bytes) / seconds);
}

std::vector<std::filesystem::path> files_of(const std::vector<std::string>& inputs) {
  std::vector<std::filesystem::path> files;
  for (const std::string& input : inputs) {
    for (const auto& file : find_files(input)) {
      if (is_token_file(file))
        throw Error(ExitCode::bad_data, file.string() + ": holds tokens already; give files of text");
      files.push_back(file);
    }
  }
  return files;
}

int tokenize(const TokenizeOptions& options) {
  const auto files = files_of(options.inputs);
  const auto tokenizer = open_tokenizer(named_tokenizer(options.tokenizer));
  const int threads = options.threads > 0 ? options.threads : usable_cores();
  TokenizeJob job{files, options.key, threads};
  job.on_bad_line = policy_of(options.on_bad_line);
  TokenFileWriter writer(options.output, value_of_word<TokenFileFormat>(format_words, options.format).value(),
                         tokenizer->vocab_size(),
                         description_of(job, named_tokenizer(options.tokenizer), options.format));
  const JobState resumed = writer.resumed();
  if (resumed.text_bytes > 0)
    log().info("{}: goes on after {} tokens of {} documents", writer.file().string(), resumed.tokens,
               resumed.documents);
  const auto start = std::chrono::steady_clock::now();
  ProgressLines lines("tokenising " + format_number_of(std::ssize(files), "file"));
  const TokenizeProgress done = tokenize_files(job, *tokenizer, writer, [&](const TokenizeProgress& progress) {
    lines.show(progress.share(), progress.text_bytes);
  });
  if (writer.documents() == 0)
    throw Error(ExitCode::bad_data, fmt::format("{}: holds no text; no file was written{}{}", options.inputs.front(),
                                                writer.bad_lines().count() > 0 ? "; " : "",
                                                fmt::join(writer.bad_lines().sentences(), "; ")));
  writer.close();
  for (const std::string& sentence : writer.bad_lines().sentences()) log().warn("{}", sentence);
  const double seconds = seconds_since(start);
  write_result(fmt::format("{}: {} tokens of {} documents, {}, from {} of text in {:.1f} s ({}/s)\n",
                           writer.file().string(), writer.tokens(), writer.documents(), name_of(writer.type()),
                           format_bytes(done.text_bytes), seconds,
                           format_bytes(per_second(done.text_bytes - resumed.text_bytes, seconds))));
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& parent, Action& action) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = parent.add_subcommand("tokenize", "Makes a token file from text, JSON Lines, or either packed");
  command->add_option("INPUT", options->inputs, "Files, folders or globs of .txt, .jsonl, and these with .gz or .zst")
      ->required()
      ->type_name("");
  command->add_option("--output", options->output, "The new token file; .bin is appended")
      ->required()
      ->type_name("PREFIX");
  command->add_option("--tokenizer", options->tokenizer, "bytes, a tokenizer.json, or a .model file of SentencePiece")
      ->type_name("FILE")
      ->capture_default_str();
  CLI::Option* format =
      command->add_option("--format", options->format, "megatron: a .bin and an .idx; nanogpt or llm.c: a .bin");
  choose_from(format, words_of(format_words))->capture_default_str();
  command->add_option("--key", options->key, "Key of the documents in JSON Lines")
      ->type_name("KEY")
      ->capture_default_str();
  add_on_bad_line(*command, options->on_bad_line);
  command->add_option("--threads", options->threads, "Threads that encode; 0: one per usable core")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096).description(""));
  command->footer("Example:\n  llmtrain data tokenize books.jsonl.zst --tokenizer tokenizer.json --output books");
  command->callback([options, &action] { action = [options] { return tokenize(*options); }; });
}

}  // namespace llmtrain::app
