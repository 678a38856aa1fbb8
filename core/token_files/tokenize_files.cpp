// SPDX-License-Identifier: Apache-2.0
#include "core/token_files/tokenize_files.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include "core/base/elapsed_time.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/data/file_search.h"
#include "core/data/records/documents.h"
#include "core/tokenizer/encode_document.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

using Clock = std::chrono::steady_clock;

struct Batch {
  std::filesystem::path file;
  std::vector<Record> records;
  std::size_t bytes = 0;
  BadLines bad_lines;  // among its records
  TextPosition end{};
};

struct EncodedBatch {
  std::vector<TokenId> tokens;
  std::vector<std::size_t> lengths;  // by document
  std::size_t text_bytes = 0;
  BadLines bad_lines;
  TextPosition end{};
};

// Encoders have memory of words that they have met: threads take one and give it back.
class EncoderPool {
 public:
  // The flag abandons what is being encoded.
  EncoderPool(const Tokenizer& tokenizer, const std::atomic<bool>& abandoned)
      : tokenizer_(tokenizer), abandoned_(abandoned) {}

  EncodedBatch encode(Batch batch, const std::string& key) {
    auto encoder = take();
    EncodedBatch encoded{{}, {}, batch.bytes, std::move(batch.bad_lines), batch.end};
    for (Record& record : batch.records) {
      const auto read = [&] { return document_of(record, batch.file, key); };
      const std::string text = encoded.bad_lines.read(read).value_or("");
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
    auto encoder = tokenizer_.make_encoder();
    encoder->abandon_on(abandoned_);
    return encoder;
  }

  const Tokenizer& tokenizer_;
  const std::atomic<bool>& abandoned_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<TextEncoder>> idle_;
};

class Tokenization {
 public:
  // `wait` is called from time to time while the calling thread waits for the others.
  Tokenization(const TokenizeJob& job, const Tokenizer& tokenizer, TokenFileWriter& writer, std::function<void()> wait)
      : job_(job),
        encoders_(tokenizer, abandoned_),
        writer_(writer),
        wait_(std::move(wait)),
        text_bytes_(writer.resumed().text_bytes) {}
  // What runs is of no use any more.
  ~Tokenization() { abandoned_ = true; }
  Tokenization(const Tokenization&) = delete;
  Tokenization& operator=(const Tokenization&) = delete;

  void start(Batch batch) {
    if (std::ssize(running_) >= job_.threads) finish_one();
    running_.push_back(std::async(std::launch::async, [this, batch = std::move(batch)]() mutable {
      return encoders_.encode(std::move(batch), job_.key);
    }));
  }

  void finish() {
    while (!running_.empty()) finish_one();
    writer_.save({job_.files.size(), 0, 0}, text_bytes_);
  }

 private:
  // The oldest first: documents are written in their order.
  void finish_one() {
    // It stays in the list while it runs, so that it is abandoned if the wait ends with an exception.
    constexpr std::chrono::milliseconds interval{100};
    while (running_.front().wait_for(interval) != std::future_status::ready) wait_();
    auto oldest = std::move(running_.front());
    running_.pop_front();
    const EncodedBatch encoded = oldest.get();
    std::span<const TokenId> rest(encoded.tokens);
    for (const std::size_t length : encoded.lengths) {
      writer_.add(rest.first(length));
      rest = rest.subspan(length);
    }
    writer_.add_skipped(encoded.bad_lines);
    text_bytes_ += static_cast<std::int64_t>(encoded.text_bytes);
    if (seconds_since(saved_) < job_.save_seconds) return;
    writer_.save(encoded.end, text_bytes_);
    saved_ = Clock::now();
  }

  const TokenizeJob& job_;
  std::atomic<bool> abandoned_{false};
  EncoderPool encoders_;
  TokenFileWriter& writer_;
  std::function<void()> wait_;
  std::int64_t text_bytes_;  // that the writer has the tokens of
  Clock::time_point saved_ = Clock::now();
  std::deque<std::future<EncodedBatch>> running_;  // after what they use: destroyed first, which waits for them
};

std::int64_t packed_bytes(const std::filesystem::path& file) {
  std::error_code ignored;
  return static_cast<std::int64_t>(std::filesystem::file_size(file, ignored));
}

}  // namespace

JobDescription description_of(const TokenizeJob& job, const TokenizerRecipe& tokenizer, const std::string& format) {
  return {{"tokenizer", hash_of_tokenizer(tokenizer)},
          {"format", format},
          {"key", job.key},
          {"list of texts", sha256_of(versions_of(job.files))}};
}

TokenizeProgress tokenize_files(const TokenizeJob& job, const Tokenizer& tokenizer, TokenFileWriter& writer,
                                const std::function<void(const TokenizeProgress&)>& report) {
  const JobState resumed = writer.resumed();
  if (job.on_bad_line == OnBadLine::stop && resumed.bad_lines.count() > 0) {
    writer.leave_to_another();
    throw Error(ExitCode::cannot_write,
                fmt::format("{}: a job that was interrupted left it, and {}; skip them again to end it, or remove its "
                            ".progress file to begin anew",
                            writer.file().string(), resumed.bad_lines.sentences().front()));
  }
  TokenizeProgress progress;
  progress.text_bytes = resumed.text_bytes;
  for (const auto& file : job.files) progress.all_file_bytes += packed_bytes(file);
  Tokenization tokenization(job, tokenizer, writer, [&] { report(progress); });
  std::int64_t bytes_before = 0;
  for (std::size_t i = 0; i < std::min(resumed.next.file, job.files.size()); ++i)
    bytes_before += packed_bytes(job.files[i]);
  for (std::size_t i = resumed.next.file; i < job.files.size(); ++i) {
    const auto& file = job.files[i];
    const auto reader = open_document_records(file, job.key);
    if (i == resumed.next.file) {
      reader->skip(resumed.next.offset, resumed.next.line);
      progress.file_bytes = bytes_before + reader->position();
      report(progress);
    }
    const Batch none{file, {}, 0, BadLines(job.on_bad_line), {}};
    Batch batch = none;
    const auto start = [&] {
      progress.file_bytes = bytes_before + reader->position();
      progress.text_bytes += static_cast<std::int64_t>(batch.bytes);
      batch.end = {i, reader->offset(), reader->lines()};
      tokenization.start(std::exchange(batch, none));
      report(progress);
    };
    for (Record record; batch.bad_lines.next(*reader, record);) {
      batch.bytes += record.text.size();
      batch.records.push_back(std::move(record));
      if (batch.bytes >= job.batch_bytes) start();
    }
    if (!batch.records.empty() || batch.bad_lines.count() > 0) start();
    bytes_before += reader->position();
  }
  tokenization.finish();
  progress.file_bytes = bytes_before;
  return progress;
}

}  // namespace llmtrain
