// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/scratch/scratch_file.h"
#include "core/scratch/scratch_stream.h"

namespace llmtrain {

// Reads blocks of a scratch file over and over in one order, ahead of whoever uses them: a thread of its own fills the
// buffers, in turn, that are not in use. Nobody writes the blocks meanwhile.
//
// One thread calls begin() and end(), in turns. A failure of the file reaches every call that waits for a block from
// then on.
class ScratchReader {
 public:
  // Two buffers at least, as large as the largest block and aligned as the file. They and the file outlive this.
  using Buffers = std::vector<std::span<std::byte>>;
  // Reads no more than so many bytes per second; 0: as many as the file gives.
  ScratchReader(const ScratchFile& file, std::vector<ScratchBlock> blocks, Buffers buffers,
                double bytes_per_second = 0);
  ~ScratchReader();
  ScratchReader(const ScratchReader&) = delete;
  ScratchReader& operator=(const ScratchReader&) = delete;

  // The bytes of a block, which stay until end(). Blocks until they are there. The next in order, behind the last one
  // the first, is on its way already, or is there; with another one the order goes on from it, and what was read ahead
  // was read in vain. Nothing is read before the first call.
  std::span<const std::byte> begin(std::size_t block);
  void end();

  // Bytes of all blocks that begin() has handed out, each time that it has; and of all that have been read.
  std::int64_t bytes_used() const { return bytes_used_; }
  std::int64_t bytes_read() const;

 private:
  std::size_t block_at(std::int64_t turn) const { return (first_ + static_cast<std::size_t>(turn)) % blocks_.size(); }
  bool may_read() const {
    return has_begun_ && !failure_ && read_ - over_ < static_cast<std::int64_t>(buffers_.size());
  }
  std::span<std::byte> place_of(std::int64_t turn) const;
  void start_at(std::size_t block, std::unique_lock<std::mutex>& lock);
  void work();
  void keep_rate(std::int64_t bytes, std::unique_lock<std::mutex>& lock);

  const ScratchFile& file_;
  std::vector<ScratchBlock> blocks_;
  Buffers buffers_;
  double bytes_per_second_;
  std::int64_t bytes_used_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable asked_, is_read_;
  // Turns count from where the order was last begun, with the block first_: those that were read, and those that were
  // used and are over. A buffer is free from the end of its turn on.
  std::size_t first_ = 0;
  std::int64_t read_ = 0, over_ = 0;
  std::int64_t bytes_read_ = 0;
  bool has_begun_ = false, is_reading_ = false, ends_ = false;
  std::chrono::steady_clock::time_point due_;  // what was read last, at the rate
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace llmtrain
