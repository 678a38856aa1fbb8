// SPDX-License-Identifier: Apache-2.0
#include "core/scratch/scratch_reader.h"

#include <algorithm>
#include <utility>

namespace llmtrain {

ScratchReader::ScratchReader(const ScratchFile& file, std::vector<ScratchBlock> blocks, Buffers buffers,
                             double bytes_per_second)
    : file_(file),
      blocks_(std::move(blocks)),
      buffers_(std::move(buffers)),
      bytes_per_second_(bytes_per_second),
      thread_([this] { work(); }) {}

ScratchReader::~ScratchReader() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  asked_.notify_all();
  thread_.join();
}

std::span<std::byte> ScratchReader::place_of(std::int64_t turn) const {
  const std::size_t buffer = static_cast<std::size_t>(turn) % buffers_.size();
  return buffers_[buffer].first(static_cast<std::size_t>(blocks_[block_at(turn)].bytes));
}

std::span<const std::byte> ScratchReader::begin(std::size_t block) {
  std::unique_lock lock(mutex_);
  if (!has_begun_ || block_at(over_) != block) start_at(block, lock);
  is_read_.wait(lock, [this] { return read_ > over_ || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  bytes_used_ += blocks_[block].bytes;
  return place_of(over_);
}

// Once nothing is on its way into a buffer.
void ScratchReader::start_at(std::size_t block, std::unique_lock<std::mutex>& lock) {
  is_read_.wait(lock, [this] { return !is_reading_; });
  first_ = block;
  read_ = over_ = 0;
  has_begun_ = true;
  asked_.notify_all();
}

void ScratchReader::end() {
  {
    const std::scoped_lock lock(mutex_);
    ++over_;
  }
  asked_.notify_all();
}

std::int64_t ScratchReader::bytes_read() const {
  const std::scoped_lock lock(mutex_);
  return bytes_read_;
}

void ScratchReader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    // What the thread itself is late by it may catch up with, but not the time in which nobody wanted anything.
    if (!may_read() && !ends_) {
      asked_.wait(lock, [this] { return ends_ || may_read(); });
      due_ = std::max(due_, std::chrono::steady_clock::now());
    }
    if (ends_) return;
    const ScratchBlock block = blocks_[block_at(read_)];
    const std::span<std::byte> place = place_of(read_);
    is_reading_ = true;
    lock.unlock();
    std::exception_ptr failure;
    try {
      file_.read(block.offset, place);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    keep_rate(block.bytes, lock);
    is_reading_ = false;
    failure_ = failure;
    bytes_read_ += block.bytes;
    ++read_;
    is_read_.notify_all();
  }
}

void ScratchReader::keep_rate(std::int64_t bytes, std::unique_lock<std::mutex>& lock) {
  if (bytes_per_second_ <= 0) return;
  due_ += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / bytes_per_second_));
  asked_.wait_until(lock, due_, [this] { return ends_; });
}

}  // namespace llmtrain
