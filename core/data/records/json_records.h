// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/data/records/byte_reader.h"
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
  std::int64_t offset() const override { return bytes_.taken(); }
  std::int64_t lines() const override { return bytes_.line() - 1; }
  void skip(std::int64_t offset, std::int64_t lines) override;
  std::int64_t position() const override { return bytes_.position(); }

 private:
  static constexpr int at_end = ByteReader::at_end;

  int peek() { return bytes_.peek(); }
  void pass_space();
  bool begin_record();
  void read_value(std::string& text);
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path file_;
  ByteReader bytes_;
  bool has_begun_ = false, is_list_ = false, has_records_ = false, has_ended_ = false;
};

// Whether the name is that of a JSON file, which may be compressed.
bool is_json(const std::filesystem::path& file);

}  // namespace llmtrain
