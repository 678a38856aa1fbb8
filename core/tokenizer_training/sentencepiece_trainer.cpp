// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer_training/sentencepiece_trainer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <exception>
#include <set>
#include <string_view>
#include <unordered_map>

#include "core/base/error.h"

namespace llmtrain {
namespace {

// The lines of documents, as the trainer asks for its sentences. What reading throws ends the lines and is kept, so
// that no exception passes through the library.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const NextDocument& next) : next_(next) { Next(); }

  bool done() const override { return is_done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

  void Next() override {
    try {
      is_done_ = !advance();
    } catch (...) {
      failure_ = std::current_exception();
      is_done_ = true;
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // To the next line that is not empty; false where there is none.
  bool advance() {
    do {
      if (begin_ >= document_.size() && !next_document()) return false;
      const std::size_t end = std::min(document_.find('\n', begin_), document_.size());
      line_.assign(document_, begin_, end - begin_);
      begin_ = end + 1;
    } while (line_.empty());
    return true;
  }

  bool next_document() {
    begin_ = 0;
    do {
      if (!next_(document_)) return false;
    } while (document_.empty());
    // The trainer has a use of its own for this character, and leaves out lines with it without a word: it ends lines
    // here, which like a character without a piece leaves it to be encoded as bytes.
    constexpr std::string_view reserved = "\u2585";
    for (std::size_t at = 0; (at = document_.find(reserved, at)) != std::string::npos; at += reserved.size())
      std::fill_n(document_.begin() + static_cast<std::ptrdiff_t>(at), reserved.size(), '\n');
    return true;
  }

  const NextDocument& next_;
  std::string document_, line_;
  std::size_t begin_ = 0;
  bool is_done_ = false;
  std::exception_ptr failure_;
};

// Quoted as the trainer's lists are (RFC 4180).
std::string as_list(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) {
    list += list.empty() ? "\"" : ",\"";
    for (const char character : text) list += character == '"' ? std::string("\"\"") : std::string(1, character);
    list += '"';
  }
  return list;
}

using Arguments = std::unordered_map<std::string, std::string>;

Arguments arguments_of(const SentencePieceSettings& settings) {
  Arguments arguments{
      {"model_type", settings.algorithm == SentencePieceAlgorithm::bpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(settings.vocab_size)},
      {"character_coverage", fmt::format("{}", settings.character_coverage)},
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      // By default longer lines are left out without a word.
      {"max_sentence_length", "1073741824"},
      // Positions of 64 bits; they cost a few percent of the time, and smaller ones fail where texts are large.
      {"train_extremely_large_corpus", "true"},
      // Sums of probabilities are split by threads: their number must not be the machine's.
      {"num_threads", "16"},
      // Its log on standard error is the developers'; what is wrong is in the status.
      {"minloglevel", "3"},
  };
  if (!settings.special_tokens.empty()) arguments["user_defined_symbols"] = as_list(settings.special_tokens);
  return arguments;
}

// The last number in a message of the trainer.
std::string last_number(std::string_view text) {
  const auto is_digit = [](char character) { return std::isdigit(static_cast<unsigned char>(character)) != 0; };
  const auto end = std::find_if(text.rbegin(), text.rend(), is_digit).base();
  auto begin = end;
  while (begin != text.begin() && is_digit(*(begin - 1))) --begin;
  return {begin, end};
}

[[noreturn]] void refuse(std::string_view message, const SentencePieceSettings& settings) {
  if (message.find("Vocabulary size too high") != std::string_view::npos)
    throw Error(ExitCode::bad_recipe,
                fmt::format("--vocab-size: {} is too large for these texts, of which SentencePiece "
                            "makes at most {} tokens; give at most that many, or more text",
                            settings.vocab_size, last_number(message)));
  constexpr std::string_view too_small = "smaller than required_chars. ";
  if (const std::size_t at = message.find(too_small); at != std::string_view::npos) {
    // "300 vs 384. Increase …"
    const std::string_view numbers = message.substr(at + too_small.size());
    throw Error(
        ExitCode::bad_recipe,
        fmt::format("--vocab-size: {} is too small: the bytes, special tokens and characters of these texts are "
                    "{}; raise it, or lower --character-coverage",
                    settings.vocab_size, last_number(numbers.substr(0, numbers.find("Increase")))));
  }
  // "./src/trainer_interface.cc(428) [!sentences_.empty()] what it says".
  const std::size_t place = message.find(") [");
  throw Error(ExitCode::bad_recipe,
              fmt::format("SentencePiece: {}", place == std::string_view::npos ? message : message.substr(place + 2)));
}

void check(const SentencePieceSettings& settings) {
  // The library's numbers have 32 bits, and its messages none of our names.
  constexpr std::int64_t most = 1 << 30;
  const auto least = static_cast<std::int64_t>(3 + 256 + settings.special_tokens.size());
  if (settings.vocab_size < least || settings.vocab_size > most)
    throw Error(ExitCode::bad_recipe,
                fmt::format("--vocab-size: is {}; it must be from {} (<unk>, <s>, </s>, 256 bytes "
                            "and the special tokens) to {}",
                            settings.vocab_size, least, most));
  std::set<std::string> taken{"", "<unk>"};
  for (int byte = 0; byte < 256; ++byte) taken.insert(fmt::format("<0x{:02X}>", byte));
  for (const std::string& token : settings.special_tokens)
    if (!taken.insert(token).second)
      throw Error(ExitCode::bad_recipe,
                  fmt::format("--special: \"{}\" is empty, given twice, or a token of every model; "
                              "leave it out",
                              token));
}

}  // namespace

std::string train_sentencepiece(const NextDocument& next, const SentencePieceSettings& settings) {
  check(settings);
  Lines lines(next);
  lines.rethrow();
  if (lines.done()) return {};
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(arguments_of(settings), &lines, &model);
  lines.rethrow();
  if (!status.ok()) refuse(status.message(), settings);
  return model;
}

}  // namespace llmtrain
