// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/data/input_stream.h"

namespace llmtrain {

// What a file of text is made of: each line of JSON Lines (.jsonl, .ndjson), or else all of it. Either may be
// compressed
// (.jsonl.gz, .txt.zst).
struct Record {
  std::string text;       // a line of JSON Lines is not parsed yet, so that many threads can do that
  std::int64_t line = 0;  // counted from 1; 0: the whole file
};

// A few compressed bytes can be a line of many gigabytes.
inline constexpr std::size_t longest_line = std::size_t{256} << 20;

// Reads the records of a file one after another. A line of JSON Lines has at most longest_line bytes, and another file,
// which is one record, at most half of the memory that the machine has left, and always that much.
class RecordReader {
 public:
  // Throws what open_input() throws. `longest`: bytes of a line.
  explicit RecordReader(const std::filesystem::path& file, std::size_t longest = longest_line);

  // Passes over records that were read before, of which next() was at `offset` after `lines` lines.
  void skip(std::int64_t offset, std::int64_t lines);
  // Where the next record begins: a place in the text, unpacked, and the lines before it.
  std::int64_t offset() const { return filled_ - static_cast<std::int64_t>(end_ - begin_); }
  std::int64_t lines() const { return lines_; }

  // False at the end. Empty lines are passed over, an empty file has no record. Throws Error(bad_data) for a record
  // that is longer than it may be.
  bool next(Record& record);
  std::int64_t position() const { return stream_->position(); }

 private:
  bool next_line(std::string& line);
  bool next_text(std::string& text);
  bool fill();

  std::filesystem::path file_;
  std::size_t longest_;
  std::unique_ptr<InputStream> stream_;
  bool has_lines_;
  std::int64_t lines_ = 0;
  std::int64_t filled_ = 0;  // bytes of text that were read or passed over
  std::vector<char> block_;
  std::size_t begin_ = 0, end_ = 0;  // what is left of the block
};

// `bytes` as a share of the file's, from 0 to 1.
double share_of(const std::filesystem::path& file, std::int64_t bytes);

// How much of its file a reader has read, packed or not.
template <class Reader>
double share_read(const Reader& reader, const std::filesystem::path& file) {
  return share_of(file, reader.position());
}

// Whether the name is that of JSON Lines.
bool is_json_lines(const std::filesystem::path& file);

// The document of a record: the value at `key` of a line, or the record itself, which is left empty. Throws
// Error(bad_data) that begins with `file` and gives the line where that is not a JSON object with a string at `key`.
std::string document_of(Record& record, const std::filesystem::path& file, const std::string& key);

// The key that files of JSON Lines have by custom.
inline constexpr const char* document_key = "text";

}  // namespace llmtrain
