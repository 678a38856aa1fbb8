// SPDX-License-Identifier: Apache-2.0
#include "core/token_files/tokenize_files.h"

#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "core/data/documents.h"
#include "core/tokenizer/encode_document.h"

namespace llmtrain {
namespace {

// A tenth of a second of work: starting a thread for it costs nothing, and few bytes wait for the one before.
constexpr std::size_t batch_bytes = 1 << 20;

struct Batch {
  std::filesystem::path file;
  std::vector<Record> records;
  std::size_t bytes = 0;
};

struct EncodedBatch {
  std::vector<TokenId> tokens;
  std::vector<std::size_t> lengths;  // by document
};

// Encoders have memory of words that they have met: threads take one and give it back.
class EncoderPool {
 public:
  explicit EncoderPool(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  EncodedBatch encode(Batch batch, const std::string& key) {
    auto encoder = take();
    EncodedBatch encoded;
    for (Record& record : batch.records) {
      const std::string text = document_of(record, batch.file, key);
      if (text.empty()) continue;
      const std::size_t before = encoded.tokens.size();
      encode_document(tokenizer_, *encoder, text, encoded.tokens);
      encoded.lengths.push_back(encoded.tokens.size() - before);
    }
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(encoder));
    return encoded;
  }

 private:
  std::unique_ptr<TextEncoder> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto encoder = std::move(idle_.back());
        idle_.pop_back();
        return encoder;
      }
    }
    return tokenizer_.make_encoder();
  }

  const Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<TextEncoder>> idle_;
};

class Tokenization {
 public:
  Tokenization(const TokenizeJob& job, const Tokenizer& tokenizer, TokenFileWriter& writer)
      : job_(job), encoders_(tokenizer), writer_(writer) {}

  void start(Batch batch) {
    if (std::ssize(running_) >= job_.threads) finish_one();
    running_.push_back(std::async(std::launch::async, [this, batch = std::move(batch)]() mutable {
      return encoders_.encode(std::move(batch), job_.key);
    }));
  }

  void finish() {
    while (!running_.empty()) finish_one();
  }

 private:
  // The oldest first: documents are written in their order.
  void finish_one() {
    auto oldest = std::move(running_.front());
    running_.pop_front();
    const EncodedBatch encoded = oldest.get();
    std::span<const TokenId> rest(encoded.tokens);
    for (const std::size_t length : encoded.lengths) {
      writer_.add(rest.first(length));
      rest = rest.subspan(length);
    }
  }

  const TokenizeJob& job_;
  EncoderPool encoders_;
  TokenFileWriter& writer_;
  std::deque<std::future<EncodedBatch>> running_;  // after what they use: destroyed first, which waits for them
};

}  // namespace

TokenizeProgress tokenize_files(const TokenizeJob& job, const Tokenizer& tokenizer, TokenFileWriter& writer,
                                const std::function<void(const TokenizeProgress&)>& report) {
  TokenizeProgress progress;
  for (const auto& file : job.files) {
    std::error_code ignored;
    progress.all_file_bytes += static_cast<std::int64_t>(std::filesystem::file_size(file, ignored));
  }
  Tokenization tokenization(job, tokenizer, writer);
  std::int64_t bytes_before = 0;
  for (const auto& file : job.files) {
    RecordReader reader(file);
    Batch batch{file, {}, 0};
    const auto start = [&] {
      progress.file_bytes = bytes_before + reader.position();
      progress.text_bytes += static_cast<std::int64_t>(batch.bytes);
      tokenization.start(std::exchange(batch, Batch{file, {}, 0}));
      report(progress);
    };
    for (Record record; reader.next(record);) {
      batch.bytes += record.text.size();
      batch.records.push_back(std::move(record));
      if (batch.bytes >= batch_bytes) start();
    }
    if (!batch.records.empty()) start();
    bytes_before += reader.position();
  }
  tokenization.finish();
  progress.file_bytes = bytes_before;
  return progress;
}

}  // namespace llmtrain
