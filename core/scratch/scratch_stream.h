// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "core/scratch/scratch_file.h"

namespace llmtrain {

// A part of a scratch file; both numbers are multiples of its alignment.
struct ScratchBlock {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;

  bool operator==(const ScratchBlock&) const = default;
};

// Passes blocks of a scratch file through two buffers, one after another, to be changed in memory: while the caller
// works on one, a thread of its own reads the next and writes the last. It carries out all reads and writes in the
// order in which they were asked for, so that a block is never read before its last change was written, and a buffer is
// never read into before what it had was written.
//
// Blocks are the same or have nothing in common. One thread calls begin() and end() or leave(), in turns, and write();
// read() may be called by any. A failure of the file reaches the callers of all calls after it that wait for something.
class ScratchStream {
 public:
  // The buffers, as large as the largest block and aligned as the file, and the file outlive this.
  using Buffers = std::array<std::span<std::byte>, 2>;
  ScratchStream(const ScratchFile& file, const Buffers& buffers);
  // Blocks until everything has been written, as far as that succeeds.
  ~ScratchStream();
  ScratchStream(const ScratchStream&) = delete;
  ScratchStream& operator=(const ScratchStream&) = delete;

  // The block's bytes, to be changed until end(), or read until leave(). Then starts to read `next`, the block of the
  // next call; a call with another one reads that. Blocks until the block is there.
  std::span<std::byte> begin(const ScratchBlock& block, const std::optional<ScratchBlock>& next);
  // Starts to write the block of begin().
  void end();
  // Leaves the block of begin() as it was.
  void leave() { here_.reset(); }

  // After all that was asked for before; block until done. No block is between begin() and its end.
  void read(std::int64_t offset, std::span<std::byte> to);
  void write(std::int64_t offset, std::span<const std::byte> from);

  // The same of a whole block into and from memory of the caller's, aligned as the file.
  void read_block(const ScratchBlock& block, std::span<std::byte> to);
  void write_block(const ScratchBlock& block, std::span<const std::byte> from);

  // Bytes of all blocks that have been read by begin() and read_block(), and written by end() and write_block().
  std::int64_t bytes_read() const { return bytes_read_; }
  std::int64_t bytes_written() const { return bytes_written_; }

 private:
  // Where a block is, and the request that reads it.
  struct Place {
    ScratchBlock block;
    std::size_t buffer = 0;
    std::int64_t request = 0;
  };

  Place start_read(const ScratchBlock& block, std::size_t buffer);
  std::span<std::byte> bytes_of(const Place& place) const {
    return buffers_[place.buffer].first(static_cast<std::size_t>(place.block.bytes));
  }
  // The number of the request.
  std::int64_t ask(std::function<void()> request);
  void wait_for(std::int64_t request);
  void work();

  const ScratchFile& file_;
  Buffers buffers_;
  std::optional<Place> here_, ahead_;
  std::size_t last_buffer_ = 1;
  std::int64_t bytes_read_ = 0, bytes_written_ = 0;

  std::mutex mutex_;
  std::condition_variable asked_, is_done_;
  std::deque<std::function<void()>> requests_;
  std::int64_t given_ = 0, done_ = 0;  // numbers of the last requests
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace llmtrain
