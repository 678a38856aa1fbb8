// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/data/records/input_stream.h"
#include "core/data/records/record_reader.h"

namespace llmtrain {

// Reads the lines of JSON Lines. One has at most longest_line bytes; empty ones are passed over. Offsets are bytes of
// the text, unpacked.
class LineReader final : public RecordReader {
 public:
  // Throws what open_input() throws. `longest`: bytes of a line.
  explicit LineReader(const std::filesystem::path& file, std::size_t longest = longest_line);

  bool next(Record& record) override;
  std::int64_t offset() const override { return filled_ - static_cast<std::int64_t>(end_ - begin_); }
  std::int64_t lines() const override { return lines_; }
  void skip(std::int64_t offset, std::int64_t lines) override;
  std::int64_t position() const override { return stream_->position(); }

 private:
  bool next_line(std::string& line);
  bool fill();

  std::filesystem::path file_;
  std::size_t longest_;
  std::unique_ptr<InputStream> stream_;
  std::int64_t lines_ = 0;
  std::int64_t filled_ = 0;  // bytes of text that were read or passed over
  std::vector<char> block_;
  std::size_t begin_ = 0, end_ = 0;  // what is left of the block
};

// Whether the name is that of JSON Lines.
bool is_json_lines(const std::filesystem::path& file);

}  // namespace llmtrain
