// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/data/records/byte_reader.h"
#include "core/data/records/record_reader.h"

namespace llmtrain {

// Reads the rows of a table in text (RFC 4180): by commas, or by tabs where the name ends in .tsv, packed or not. The
// first row names the columns. A field in quotation marks may hold line ends, delimiters, and quotation marks that are
// written twice; one without is taken as it stands. Lines end in LF or CRLF, and empty ones are passed over. A record
// is an object with a text for each column; it has at most longest_line bytes.
class CsvReader final : public RecordReader {
 public:
  // With `key` the table must have that column. Throws what open_input() throws, and Error(bad_data) for a table whose
  // first row names no columns, or one twice.
  explicit CsvReader(const std::filesystem::path& file, const std::optional<std::string>& key = std::nullopt);

  // Throws BadLine for a row with more or fewer fields than columns, with text behind a field's quotation mark, that is
  // not UTF-8 or too long, and Error(bad_data) where a quotation mark is not closed up to the file's end.
  bool next(Record& record) override;
  std::int64_t offset() const override { return bytes_.taken(); }
  std::int64_t lines() const override { return bytes_.line() - 1; }
  void skip(std::int64_t offset, std::int64_t lines) override;
  std::int64_t position() const override { return bytes_.position(); }

 private:
  // Whether there is a row; why it is a bad one.
  bool read_row();
  void read_quoted(std::string& field);
  bool at_field_end();
  void take_into(std::string& field);

  std::filesystem::path file_;
  ByteReader bytes_;
  char delimiter_;
  std::vector<std::string> columns_, fields_;
  std::int64_t row_line_ = 0;
  std::size_t row_bytes_ = 0;
  std::string problem_;
};

// Whether the name is that of a table in text.
bool is_csv(const std::filesystem::path& file);

}  // namespace llmtrain
