// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/csv_records.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/data/records/bad_lines.h"

namespace llmtrain {
namespace {

std::filesystem::path table_extension(const std::filesystem::path& file) {
  return (is_compressed(file) ? file.stem() : file.filename()).extension();
}

[[noreturn]] void refuse_table(const std::filesystem::path& file, const std::string& what) {
  throw Error(ExitCode::bad_data, file.string() + ": " + what);
}

}  // namespace

bool is_csv(const std::filesystem::path& file) {
  const auto extension = table_extension(file);
  return extension == ".csv" || extension == ".tsv";
}

CsvReader::CsvReader(const std::filesystem::path& file, const std::optional<std::string>& key)
    : file_(file), bytes_(file), delimiter_(table_extension(file) == ".tsv" ? '\t' : ',') {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (!read_row()) refuse_table(file_, "is empty; its first row names its columns");
  if (!problem_.empty()) refuse_table(file_, "its first row, which names its columns, " + problem_);
  columns_ = fields_;
  if (columns_.front().starts_with(byte_order_mark)) columns_.front().erase(0, byte_order_mark.size());
  std::vector<std::string> sorted = columns_;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end())
    refuse_table(file_, "has two columns \"" + *twice + "\"; a row has one value for each name");
  if (key && std::ranges::find(columns_, *key) == columns_.end())
    refuse_table(file_,
                 fmt::format("has no column \"{}\"; its first row names \"{}\"; rename one, name it by "
                             "data.train[].text_key (--key of the data commands), or leave the file out of the pattern",
                             *key, fmt::join(columns_, "\", \"")));
}

bool CsvReader::at_field_end() {
  const int next = bytes_.peek();
  return next == ByteReader::at_end || next == '\n' || next == delimiter_;
}

// Takes a byte; the rest of a row that is too long is passed over.
void CsvReader::take_into(std::string& field) {
  const char byte = bytes_.take();
  if (++row_bytes_ <= longest_line) field += byte;
}

void CsvReader::read_quoted(std::string& field) {
  const std::int64_t begin = bytes_.line();
  bytes_.take();
  for (;;) {
    if (bytes_.peek() == ByteReader::at_end)
      refuse_table(
          file_, fmt::format("line {} has a quotation mark at the beginning of a field that no other closes up to the "
                             "end of the file; within such a field a quotation mark is written twice",
                             begin));
    if (bytes_.peek() != '"') {
      take_into(field);
      continue;
    }
    bytes_.take();
    if (bytes_.peek() != '"') return;
    take_into(field);
  }
}

bool CsvReader::read_row() {
  while (bytes_.peek() == '\n' || bytes_.peek() == '\r') bytes_.take();
  fields_.clear();
  problem_.clear();
  row_bytes_ = 0;
  row_line_ = bytes_.line();
  if (bytes_.peek() == ByteReader::at_end) return false;
  for (bool is_last = false; !is_last;) {
    std::string& field = fields_.emplace_back();
    const bool is_quoted = bytes_.peek() == '"';
    if (is_quoted) read_quoted(field);
    std::string plain;
    while (!at_field_end()) take_into(plain);
    is_last = bytes_.peek() != delimiter_;
    if (is_last && plain.ends_with('\r')) plain.pop_back();
    if (is_quoted && !plain.empty()) problem_ = "has text behind the quotation mark that ends a field";
    field += plain;
    if (bytes_.peek() != ByteReader::at_end) bytes_.take();
  }
  if (row_bytes_ > longest_line)
    problem_ = fmt::format("is in a row of more than {}, the most that one may have",
                           format_bytes(static_cast<std::int64_t>(longest_line)));
  if (!std::ranges::all_of(fields_, [](const std::string& field) { return is_utf8(field); })) problem_ = "is not UTF-8";
  return true;
}

bool CsvReader::next(Record& record) {
  if (!read_row()) return false;
  if (problem_.empty() && fields_.size() != columns_.size())
    problem_ = fmt::format("has {} where the first row names {}", format_number_of(std::ssize(fields_), "field"),
                           columns_.size());
  if (!problem_.empty())
    throw BadLine(file_, row_line_, problem_,
                  "a field with delimiters, line ends or quotation marks is in quotation marks");
  nlohmann::ordered_json row = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < columns_.size(); ++i) row[columns_[i]] = std::move(fields_[i]);
  record = {row.dump(), row_line_};
  return true;
}

// All bytes are looked at, as a packed file has no other way, and quotation marks may hold lines.
void CsvReader::skip(std::int64_t offset, std::int64_t) {
  while (bytes_.taken() < offset && read_row()) {
  }
}

}  // namespace llmtrain
