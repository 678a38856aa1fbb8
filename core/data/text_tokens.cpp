// SPDX-License-Identifier: Apache-2.0
#include "core/data/text_tokens.h"

#include <chrono>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "core/base/elapsed_time.h"
#include "core/base/log.h"
#include "core/tokenizer/encode_document.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

using SharedTokens = std::shared_ptr<const TokenizedText>;

// What threads of the process have tokenised: while one does, the others wait for it.
class TokenizedFiles {
 public:
  using Key =
      std::tuple<std::string, std::filesystem::file_time_type, TokenizerKind, std::string, OnBadLine, std::string>;

  template <class Make>
  SharedTokens find_or_make(const Key& key, Make make) {
    const std::lock_guard lock(mutex_);
    SharedTokens tokens = files_[key].lock();
    if (!tokens) files_[key] = tokens = std::make_shared<const TokenizedText>(make());
    return tokens;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const TokenizedText>> files_;
};

TokenizedFiles& tokenized_files() {
  static TokenizedFiles files;
  return files;
}

}  // namespace

TextTokens::TextTokens(TokenizerRecipe tokenizer, std::int64_t vocab_size, OnBadLine on_bad_line, std::string key)
    : recipe_(std::move(tokenizer)), vocab_size_(vocab_size), on_bad_line_(on_bad_line), key_(std::move(key)) {}

TextBytes TextTokens::bytes_of(const std::filesystem::path& file, const ReportShare& report) const {
  TextBytes text{{}, BadLines(on_bad_line_)};
  const auto reader = open_document_records(file, key_);
  // Without a separator: bytes have none, and documents must end with one of their own.
  for (Record record; text.bad_lines.next(*reader, record); report(share_read(*reader, file)))
    text.bytes += text.bad_lines.read([&] { return document_of(record, file, key_); }).value_or("");
  return text;
}

SharedTokens TextTokens::tokens_of(const std::filesystem::path& file, const ReportShare& report) {
  std::error_code ignored;
  const auto changed = std::filesystem::last_write_time(file, ignored);
  return tokenized_files().find_or_make({file.string(), changed, recipe_.kind, recipe_.file, on_bad_line_, key_},
                                        [&] { return encode_file(file, report); });
}

TokenizedText TextTokens::encode_file(const std::filesystem::path& file, const ReportShare& report) {
  using Clock = std::chrono::steady_clock;
  if (!encoder_) {
    tokenizer_ = open_tokenizer(recipe_, vocab_size_);
    encoder_ = tokenizer_->make_encoder();
  }
  const auto start = Clock::now();
  TokenizedText made{{}, BadLines(on_bad_line_)};
  const auto reader = open_document_records(file, key_);
  for (Record record; made.bad_lines.next(*reader, record); report(share_read(*reader, file))) {
    const std::string text = made.bad_lines.read([&] { return document_of(record, file, key_); }).value_or("");
    // As in token files that `llmtrain data tokenize` makes.
    if (!text.empty()) encode_document(*tokenizer_, *encoder_, text, made.tokens);
  }
  const double seconds = seconds_since(start);
  // A wait that a user notices, and that each process has at each start.
  if (seconds > 10)
    log().info("{}: {} tokens, made in {:.0f} s; `llmtrain data tokenize` makes them once for all runs", file.string(),
               made.tokens.size(), seconds);
  return made;
}

}  // namespace llmtrain
