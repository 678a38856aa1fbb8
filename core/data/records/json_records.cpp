// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/json_records.h"

#include <spdlog/fmt/fmt.h>

#include <string_view>

#include "core/base/error.h"
#include "core/base/units.h"

namespace llmtrain {

JsonRecordReader::JsonRecordReader(const std::filesystem::path& file) : file_(file), bytes_(file) {}

void JsonRecordReader::fail(const std::string& what) const {
  throw Error(ExitCode::bad_data, fmt::format("{}: line {} {}", file_.string(), bytes_.line(), what));
}

void JsonRecordReader::pass_space() {
  while (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n') bytes_.take();
}

// Goes to the first byte of the next record. False at the end.
bool JsonRecordReader::begin_record() {
  pass_space();
  if (!has_begun_) {
    has_begun_ = true;
    is_list_ = peek() == '[';
    if (is_list_) bytes_.take();
    pass_space();
  }
  if (!is_list_) return peek() != at_end;
  const bool is_between = has_records_ && peek() == ',';
  if (is_between) {
    bytes_.take();
    pass_space();
  }
  if (peek() == at_end) fail("is the last one, and the list does not end");
  if (is_between || (!has_records_ && peek() != ']')) return true;
  if (peek() != ']') fail("has no comma between two elements of the list");
  bytes_.take();
  pass_space();
  if (peek() != at_end) fail("has something behind the list");
  return false;
}

// Up to the end of an object, a list or a text, or else to what cannot belong to a number or a word.
void JsonRecordReader::read_value(std::string& text) {
  constexpr std::string_view behind_words = " \t\r\n,]}";
  std::size_t depth = 0;
  bool in_text = false;
  while (peek() != at_end) {
    if (!in_text && depth == 0 && behind_words.find(static_cast<char>(peek())) != std::string_view::npos) return;
    const char byte = bytes_.take();
    text += byte;
    if (text.size() > longest_line)
      fail(fmt::format("is in a record of more than {}, the most that one may have",
                       format_bytes(static_cast<std::int64_t>(longest_line))));
    if (in_text && byte == '\\' && peek() != at_end) {
      text += bytes_.take();
    } else if (byte == '"') {
      in_text = !in_text;
    } else if (!in_text && (byte == '{' || byte == '[')) {
      ++depth;
    } else if (!in_text && (byte == '}' || byte == ']') && depth > 0) {
      --depth;
    }
    if (!in_text && depth == 0 && (byte == '}' || byte == ']' || byte == '"')) return;
  }
}

bool JsonRecordReader::next(Record& record) {
  record.text.clear();
  if (has_ended_ || !begin_record()) {
    has_ended_ = true;
    return false;
  }
  has_records_ = true;
  record.line = bytes_.line();
  read_value(record.text);
  if (record.text.empty()) fail("has a comma or a bracket in place of an element");
  return true;
}

// Whether it is a list follows from its beginning.
void JsonRecordReader::skip(std::int64_t offset, std::int64_t) {
  for (Record record; bytes_.taken() < offset && next(record);) {
  }
}

bool is_json(const std::filesystem::path& file) {
  return (is_compressed(file) ? file.stem() : file.filename()).extension() == ".json";
}

}  // namespace llmtrain
