// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/line_records.h"

#include <spdlog/fmt/fmt.h>

#include <cstring>

#include "core/base/units.h"
#include "core/data/records/bad_lines.h"

namespace llmtrain {

bool is_json_lines(const std::filesystem::path& file) {
  const auto extension = (is_compressed(file) ? file.stem() : file.filename()).extension();
  return extension == ".jsonl" || extension == ".ndjson";
}

LineReader::LineReader(const std::filesystem::path& file, std::size_t longest)
    : file_(file), longest_(longest), stream_(open_input(file)), block_(std::size_t{1} << 20) {}

bool LineReader::fill() {
  begin_ = 0;
  end_ = stream_->read(block_);
  filled_ += static_cast<std::int64_t>(end_);
  return end_ > 0;
}

void LineReader::skip(std::int64_t offset, std::int64_t lines) {
  stream_->skip(offset);
  filled_ = offset;
  lines_ = lines;
}

// The whole line is passed over, however long it is.
bool LineReader::next_line(std::string& line) {
  line.clear();
  bool is_too_long = false, has_begun = false;
  while (begin_ < end_ || fill()) {
    has_begun = true;
    const char* start = block_.data() + begin_;
    const auto* newline = static_cast<const char*>(std::memchr(start, '\n', end_ - begin_));
    const char* const end = newline != nullptr ? newline : block_.data() + end_;
    is_too_long = is_too_long || line.size() + static_cast<std::size_t>(end - start) > longest_;
    if (!is_too_long) line.append(start, end);
    begin_ = newline != nullptr ? static_cast<std::size_t>(newline - block_.data()) + 1 : end_;
    if (newline != nullptr) break;
  }
  if (has_begun) ++lines_;
  if (is_too_long)
    throw BadLine(file_, lines_,
                  fmt::format("is longer than {}, the most that a line of JSON Lines may have",
                              format_bytes(static_cast<std::int64_t>(longest_))),
                  "divide its document among several lines");
  return has_begun;
}

bool LineReader::next(Record& record) {
  while (next_line(record.text)) {
    record.line = lines_;
    if (record.text.find_first_not_of(" \t\r") != std::string::npos) return true;
  }
  return false;
}

}  // namespace llmtrain
