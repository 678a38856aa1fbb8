// SPDX-License-Identifier: Apache-2.0
#include "core/data/documents.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/json/json_memory.h"
#include "core/machine/host_memory.h"

namespace llmtrain {
namespace {

constexpr std::size_t block_bytes = 1 << 20;

// The longest text, in bytes, that is read from a file that is one record.
std::size_t most_text() {
  const std::int64_t available = host_memory().available;  // 0: unknown
  return available == 0 ? std::numeric_limits<std::int64_t>::max()
                        : std::max(longest_line, static_cast<std::size_t>(available / 2));
}

}  // namespace

double share_of(const std::filesystem::path& file, std::int64_t bytes) {
  std::error_code unknown;
  const auto all = static_cast<double>(std::filesystem::file_size(file, unknown));
  return unknown || all < 1 ? 1 : std::min(1.0, static_cast<double>(bytes) / all);
}

bool is_json_lines(const std::filesystem::path& file) {
  const auto extension = (is_compressed(file) ? file.stem() : file.filename()).extension();
  return extension == ".jsonl" || extension == ".ndjson";
}

RecordReader::RecordReader(const std::filesystem::path& file, std::size_t longest)
    : file_(file), longest_(longest), stream_(open_input(file)), has_lines_(is_json_lines(file)), block_(block_bytes) {}

bool RecordReader::fill() {
  begin_ = 0;
  end_ = stream_->read(block_);
  filled_ += static_cast<std::int64_t>(end_);
  return end_ > 0;
}

void RecordReader::skip(std::int64_t offset, std::int64_t lines) {
  stream_->skip(offset);
  filled_ = offset;
  lines_ = lines;
}

bool RecordReader::next_line(std::string& line) {
  line.clear();
  while (begin_ < end_ || fill()) {
    const char* start = block_.data() + begin_;
    const auto* newline = static_cast<const char*>(std::memchr(start, '\n', end_ - begin_));
    const char* const end = newline != nullptr ? newline : block_.data() + end_;
    if (line.size() + static_cast<std::size_t>(end - start) > longest_)
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: line {} is longer than {}, the most that a line of JSON Lines may have; divide its "
                              "document among several lines",
                              file_.string(), lines_ + 1, format_bytes(static_cast<std::int64_t>(longest_))));
    line.append(start, end);
    begin_ = newline != nullptr ? static_cast<std::size_t>(newline - block_.data()) + 1 : end_;
    if (newline != nullptr) return true;
  }
  return !line.empty();
}

bool RecordReader::next_text(std::string& text) {
  std::optional<std::size_t> most;
  for (; fill(); begin_ = end_) {
    text.append(block_.data(), end_);
    if (text.size() <= longest_line) continue;
    // Asked once: the text itself takes of it.
    if (!most) most = most_text();
    if (text.size() > *most)
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: has more than {} of text, half of the memory that this machine has left; divide it "
                              "into several files, or write it as JSON Lines, a document a line",
                              file_.string(), format_bytes(static_cast<std::int64_t>(*most))));
  }
  return !text.empty();
}

bool RecordReader::next(Record& record) {
  if (!has_lines_) {
    record = {};
    return next_text(record.text);
  }
  while (next_line(record.text)) {
    record.line = ++lines_;
    if (record.text.find_first_not_of(" \t\r") != std::string::npos) return true;
  }
  return false;
}

std::string document_of(Record& record, const std::filesystem::path& file, const std::string& key) {
  if (record.line == 0) return std::exchange(record.text, {});
  if (is_too_large_json(record.text))
    throw Error(ExitCode::bad_data, fmt::format("{}: line {} {}", file.string(), record.line, too_large_json));
  auto object = nlohmann::json::parse(record.text, nullptr, false);
  const auto field = object.is_object() ? object.find(key) : object.end();
  if (object.is_object() && field != object.end() && field->is_string())
    return std::move(field->get_ref<std::string&>());
  throw Error(
      ExitCode::bad_data,
      fmt::format("{}: line {} {}; every line of a .jsonl file is an object with a string \"{}\"", file.string(),
                  record.line, object.is_discarded() ? "is not valid JSON" : "has no string \"" + key + "\"", key));
}

}  // namespace llmtrain
