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

// Reads the records of a JSON file (.json) one after another: the elements of a list, or values that follow each other,
// however their lines are broken. Memory grows with a record alone, which has at most longest_line bytes.
class JsonRecordReader final : public RecordReader {
 public:
  // Throws what open_input() throws.
  explicit JsonRecordReader(const std::filesystem::path& file);

  // False at the end. The record's line is that on which it begins; its text need not be JSON. Throws Error(bad_data)
  // for a list that does not end, and for a record that is too long.
  bool next(Record& record) override;
  std::int64_t offset() const override { return taken_; }
  std::int64_t lines() const override { return line_ - 1; }
  void skip(std::int64_t offset, std::int64_t lines) override;
  std::int64_t position() const override { return stream_->position(); }

 private:
  static constexpr int at_end = -1;

  int peek();  // the next byte, or at_end
  char take();
  void pass_space();
  bool begin_record();
  void read_value(std::string& text);
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path file_;
  std::unique_ptr<InputStream> stream_;
  std::vector<char> block_;
  std::size_t begin_ = 0, end_ = 0;  // what is left of the block
  std::int64_t line_ = 1, taken_ = 0;
  bool has_begun_ = false, is_list_ = false, has_records_ = false, has_ended_ = false;
};

// Whether the name is that of a JSON file, which may be compressed.
bool is_json(const std::filesystem::path& file);

}  // namespace llmtrain
