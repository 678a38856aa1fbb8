// SPDX-License-Identifier: Apache-2.0
#include "core/data/text_tokens.h"

#include <chrono>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "core/base/elapsed_time.h"
#include "core/base/log.h"
#include "core/data/documents.h"
#include "core/tokenizer/encode_document.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

using SharedTokens = std::shared_ptr<const std::vector<TokenId>>;

// What threads of the process have tokenised: while one does, the others wait for it.
class TokenizedFiles {
 public:
  using Key = std::tuple<std::string, std::filesystem::file_time_type, TokenizerKind, std::string>;

  template <class Make>
  SharedTokens find_or_make(const Key& key, Make make) {
    const std::lock_guard lock(mutex_);
    SharedTokens tokens = files_[key].lock();
    if (!tokens) files_[key] = tokens = std::make_shared<const std::vector<TokenId>>(make());
    return tokens;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const std::vector<TokenId>>> files_;
};

TokenizedFiles& tokenized_files() {
  static TokenizedFiles files;
  return files;
}

}  // namespace

TextTokens::TextTokens(TokenizerRecipe tokenizer, std::int64_t vocab_size)
    : recipe_(std::move(tokenizer)), vocab_size_(vocab_size) {}

std::string TextTokens::bytes_of(const std::filesystem::path& file, const ReportShare& report) const {
  std::string bytes;
  RecordReader reader(file);
  // Without a separator: bytes have none, and documents must end with one of their own.
  for (Record record; reader.next(record); report(share_read(reader, file)))
    bytes += document_of(record, file, document_key);
  return bytes;
}

SharedTokens TextTokens::tokens_of(const std::filesystem::path& file, const ReportShare& report) {
  std::error_code ignored;
  const auto changed = std::filesystem::last_write_time(file, ignored);
  return tokenized_files().find_or_make({file.string(), changed, recipe_.kind, recipe_.file},
                                        [&] { return encode_file(file, report); });
}

std::vector<TokenId> TextTokens::encode_file(const std::filesystem::path& file, const ReportShare& report) {
  using Clock = std::chrono::steady_clock;
  if (!encoder_) {
    tokenizer_ = open_tokenizer(recipe_, vocab_size_);
    encoder_ = tokenizer_->make_encoder();
  }
  const auto start = Clock::now();
  std::vector<TokenId> tokens;
  RecordReader reader(file);
  for (Record record; reader.next(record); report(share_read(reader, file))) {
    const std::string text = document_of(record, file, document_key);
    // As in token files that `llmtrain data tokenize` makes.
    if (!text.empty()) encode_document(*tokenizer_, *encoder_, text, tokens);
  }
  const double seconds = seconds_since(start);
  // A wait that a user notices, and that each process has at each start.
  if (seconds > 10)
    log().info("{}: {} tokens, made in {:.0f} s; `llmtrain data tokenize` makes them once for all runs", file.string(),
               tokens.size(), seconds);
  return tokens;
}

}  // namespace llmtrain
