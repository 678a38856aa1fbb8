// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace llmtrain {

// What a file of data is made of: a row, as JSON that is not parsed yet, so that many threads can do that; or all of a
// text.
struct Record {
  std::string text;
  std::int64_t line = 0;  // on which it begins, counted from 1; 0: the text is the whole file
};

// A few compressed bytes can be a line of many gigabytes.
inline constexpr std::size_t longest_line = std::size_t{256} << 20;

// Reads the records of a file one after another. Memory grows with a record alone.
class RecordReader {
 public:
  RecordReader() = default;
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;
  virtual ~RecordReader() = default;

  // False at the end. Throws BadLine (core/data/records/bad_lines.h) for a row that cannot be read, behind which the
  // next call goes on, and Error(bad_data) for a file that cannot be read on.
  virtual bool next(Record& record) = 0;

  // Where the next record begins: a place of which the reader alone knows the meaning, and the lines before it.
  virtual std::int64_t offset() const = 0;
  virtual std::int64_t lines() const = 0;
  // Passes over records that were read before, of which next() was at `offset` after `lines` lines. Called first.
  virtual void skip(std::int64_t offset, std::int64_t lines) = 0;

  // Bytes of the file itself that have been read, for progress.
  virtual std::int64_t position() const = 0;
};

// Opens a file of documents by its name, and one of JSON by its content, too: rows of JSON Lines (.jsonl, .ndjson), or
// of a table (.csv, .tsv, .parquet, .arrow, .feather) with a column `key`, of JSON (.json) whose first value is an
// object with a text at `key`, or a conversation, else one text. All but the last three may be compressed (.jsonl.gz,
// .txt.zst). Throws what open_input(), CsvReader() and open_column_table() throw, and Error(bad_data) for a table in
// columns without `key`, and, where that is not document_key, for a file that has no keys.
std::unique_ptr<RecordReader> open_document_records(const std::filesystem::path& file, const std::string& key);

// Whether the file's documents are rows, as open_document_records() finds them. Throws nothing.
bool has_rows(const std::filesystem::path& file, const std::string& key);

// Opens a file of conversations: JSON Lines, JSON (.json), or a table, packed or not. Throws what open_input(),
// CsvReader() and open_column_table() throw, and Error(bad_data) for other files.
std::unique_ptr<RecordReader> open_conversation_records(const std::filesystem::path& file);

// How much of its file a reader has read, packed or not, as a share from 0 to 1.
double share_read(const RecordReader& reader, const std::filesystem::path& file);

}  // namespace llmtrain
