// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "core/data/records/input_stream.h"
#include "core/data/records/record_reader.h"

namespace llmtrain {

// Reads a text, which is one record: at most half of the memory that the machine has left, and always as much as a line
// may have. An empty file has none.
class TextReader final : public RecordReader {
 public:
  // Throws what open_input() throws. next() throws what require_text() does.
  explicit TextReader(const std::filesystem::path& file);

  bool next(Record& record) override;
  std::int64_t offset() const override { return read_; }
  std::int64_t lines() const override { return 0; }
  void skip(std::int64_t offset, std::int64_t lines) override;
  std::int64_t position() const override { return stream_->position(); }

 private:
  std::filesystem::path file_;
  std::unique_ptr<InputStream> stream_;
  std::int64_t read_ = 0;
};

}  // namespace llmtrain
