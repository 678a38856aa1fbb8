// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/vocabulary_rarity.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <future>
#include <mutex>
#include <span>

#include "core/machine/processor.h"

namespace llmtrain {
namespace {

constexpr std::int64_t block_tokens = 1 << 16;

// Calls work(first, end) for pieces of 0 … count − 1, of `piece` numbers each, on all cores that this process may use.
// Reports where in `shares` of the whole work that is.
class Pieces {
 public:
  Pieces(std::int64_t count, std::int64_t piece) : count_(count), piece_(piece) {}

  template <class Work, class Report>
  void run(const Work& work, const Report& report) {
    std::vector<std::future<void>> helpers;
    for (int i = 1, cores = usable_cores(); i < cores; ++i)
      helpers.push_back(std::async(std::launch::async, [&] {
        while (one(work)) {
        }
      }));
    try {
      while (one(work)) report(static_cast<double>(std::min(next_.load(), count_)) / static_cast<double>(count_));
    } catch (...) {
      next_ = count_;  // the helpers, which are waited for, end after their pieces
      throw;
    }
    for (std::future<void>& helper : helpers) helper.get();
  }

 private:
  template <class Work>
  bool one(const Work& work) {
    const std::int64_t first = next_.fetch_add(piece_);
    if (first < count_) work(first, std::min(first + piece_, count_));
    return first < count_;
  }

  std::int64_t count_, piece_;
  std::atomic<std::int64_t> next_ = 0;
};

std::vector<std::int64_t> count_tokens(const TokenSource& source, std::int64_t vocab_size, const ReportShare& report) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(vocab_size), 0);
  std::mutex mutex;
  // Long pieces: each adds a table of the whole vocabulary.
  const std::int64_t piece = std::max(block_tokens, vocab_size * 16);
  const auto count = [&](std::int64_t first, std::int64_t end) {
    std::vector<std::int64_t> own(counts.size(), 0), tokens;
    for (; first < end; first += block_tokens) {
      tokens.resize(static_cast<std::size_t>(std::min(block_tokens, end - first)));
      source.read(first, tokens);
      for (const std::int64_t token : tokens) ++own[static_cast<std::size_t>(token)];
    }
    const std::lock_guard lock(mutex);
    for (std::size_t id = 0; id < own.size(); ++id) counts[id] += own[id];
  };
  Pieces(source.tokens(), piece).run(count, [&](double share) { report(share / 2); });
  return counts;
}

// −ln p of each id; 0 where it does not occur.
std::vector<double> surprisals(const std::vector<std::int64_t>& counts, std::int64_t tokens) {
  std::vector<double> result;
  for (const std::int64_t count : counts)
    result.push_back(count > 0 ? -std::log(static_cast<double>(count) / static_cast<double>(tokens)) : 0);
  return result;
}

}  // namespace

std::vector<std::int64_t> vocabulary_rarity(const TokenSource& source, std::int64_t sequence_length,
                                            std::int64_t vocab_size, const ReportShare& report) {
  const std::vector<double> of_token = surprisals(count_tokens(source, vocab_size, report), source.tokens());
  std::vector<std::int64_t> rarity(static_cast<std::size_t>((source.tokens() - 1) / sequence_length));
  const auto sum = [&](std::int64_t first, std::int64_t end) {
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(sequence_length));
    for (std::int64_t sample = first; sample < end; ++sample) {
      source.read(sample * sequence_length, tokens);
      double total = 0;
      for (const std::int64_t token : tokens) total += of_token[static_cast<std::size_t>(token)];
      rarity[static_cast<std::size_t>(sample)] = static_cast<std::int64_t>(total);
    }
  };
  const std::int64_t piece = std::max<std::int64_t>(1, block_tokens / sequence_length);
  Pieces(std::ssize(rarity), piece).run(sum, [&](double share) { report((1 + share) / 2); });
  return rarity;
}

}  // namespace llmtrain
