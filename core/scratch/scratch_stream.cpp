// SPDX-License-Identifier: Apache-2.0
#include "core/scratch/scratch_stream.h"

#include <utility>

namespace llmtrain {

ScratchStream::ScratchStream(const ScratchFile& file, const Buffers& buffers)
    : file_(file), buffers_(buffers), thread_([this] { work(); }) {}

ScratchStream::~ScratchStream() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  asked_.notify_all();
  thread_.join();
}

ScratchStream::Place ScratchStream::start_read(const ScratchBlock& block, std::size_t buffer) {
  Place place{block, buffer, 0};
  bytes_read_ += block.bytes;
  place.request = ask([this, place] { file_.read(place.block.offset, bytes_of(place)); });
  return place;
}

std::span<std::byte> ScratchStream::begin(const ScratchBlock& block, const std::optional<ScratchBlock>& next) {
  std::optional<Place> ahead = std::exchange(ahead_, std::nullopt);
  here_ = ahead && ahead->block == block ? *ahead : start_read(block, 1 - last_buffer_);
  last_buffer_ = here_->buffer;
  wait_for(here_->request);
  // Behind the write of the block before, which had the other buffer.
  if (next) ahead_ = start_read(*next, 1 - last_buffer_);
  return bytes_of(*here_);
}

void ScratchStream::end() {
  const Place place = *std::exchange(here_, std::nullopt);
  bytes_written_ += place.block.bytes;
  // It was read as it was before.
  if (ahead_ && ahead_->block == place.block) ahead_.reset();
  ask([this, place] { file_.write(place.block.offset, bytes_of(place)); });
}

void ScratchStream::read(std::int64_t offset, std::span<std::byte> to) {
  wait_for(ask([&] { file_.read(offset, to); }));
}

void ScratchStream::write(std::int64_t offset, std::span<const std::byte> from) {
  // What was read ahead may be what changes.
  ahead_.reset();
  wait_for(ask([&] { file_.write(offset, from); }));
}

void ScratchStream::read_block(const ScratchBlock& block, std::span<std::byte> to) {
  bytes_read_ += block.bytes;
  read(block.offset, to);
}

void ScratchStream::write_block(const ScratchBlock& block, std::span<const std::byte> from) {
  bytes_written_ += block.bytes;
  write(block.offset, from);
}

std::int64_t ScratchStream::ask(std::function<void()> request) {
  std::int64_t number = 0;
  {
    const std::scoped_lock lock(mutex_);
    requests_.push_back(std::move(request));
    number = ++given_;
  }
  asked_.notify_all();
  return number;
}

void ScratchStream::wait_for(std::int64_t request) {
  std::unique_lock lock(mutex_);
  is_done_.wait(lock, [&] { return done_ >= request; });
  if (failure_) std::rethrow_exception(failure_);
}

void ScratchStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    asked_.wait(lock, [this] { return ends_ || !requests_.empty(); });
    if (requests_.empty()) return;
    const std::function<void()> request = std::move(requests_.front());
    requests_.pop_front();
    // After a failure nothing that follows from it is written.
    const bool goes_on = !failure_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      if (goes_on) request();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    ++done_;
    is_done_.notify_all();
  }
}

}  // namespace llmtrain
