// SPDX-License-Identifier: Apache-2.0
#include "core/data/documents.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {
namespace {

constexpr std::size_t block_bytes = 1 << 20;

}  // namespace

double share_read(const RecordReader& reader, const std::filesystem::path& file) {
  std::error_code unknown;
  const auto bytes = static_cast<double>(std::filesystem::file_size(file, unknown));
  return unknown || bytes < 1 ? 1 : std::min(1.0, static_cast<double>(reader.position()) / bytes);
}

bool is_json_lines(const std::filesystem::path& file) {
  return (is_compressed(file) ? file.stem() : file.filename()).extension() == ".jsonl";
}

RecordReader::RecordReader(const std::filesystem::path& file)
    : stream_(open_input(file)), has_lines_(is_json_lines(file)), block_(block_bytes) {}

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
    line.append(start, newline != nullptr ? newline : block_.data() + end_);
    begin_ = newline != nullptr ? static_cast<std::size_t>(newline - block_.data()) + 1 : end_;
    if (newline != nullptr) return true;
  }
  return !line.empty();
}

bool RecordReader::next(Record& record) {
  if (!has_lines_) {
    record = {};
    for (; fill(); begin_ = end_) record.text.append(block_.data(), end_);
    return !record.text.empty();
  }
  while (next_line(record.text)) {
    record.line = ++lines_;
    if (record.text.find_first_not_of(" \t\r") != std::string::npos) return true;
  }
  return false;
}

std::string document_of(Record& record, const std::filesystem::path& file, const std::string& key) {
  if (record.line == 0) return std::exchange(record.text, {});
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
