// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/data/records/input_stream.h"

namespace llmtrain {

// Reads a file, packed or not, byte by byte, and counts its lines.
class ByteReader {
 public:
  static constexpr int at_end = -1;

  // Throws what open_input() throws.
  explicit ByteReader(const std::filesystem::path& file) : stream_(open_input(file)), block_(std::size_t{1} << 20) {}

  // The next byte, or at_end.
  int peek() {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = stream_->read(block_);
    }
    return begin_ == end_ ? at_end : static_cast<unsigned char>(block_[begin_]);
  }
  // There must be one.
  char take() {
    const char byte = block_[begin_++];
    ++taken_;
    if (byte == '\n') ++line_;
    return byte;
  }

  std::int64_t line() const { return line_; }  // of the next byte, from 1
  std::int64_t taken() const { return taken_; }
  std::int64_t position() const { return stream_->position(); }

 private:
  std::unique_ptr<InputStream> stream_;
  std::vector<char> block_;
  std::size_t begin_ = 0, end_ = 0;  // what is left of the block
  std::int64_t line_ = 1, taken_ = 0;
};

}  // namespace llmtrain
