// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/record_reader.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "core/base/error.h"
#include "core/data/records/csv_records.h"
#include "core/data/records/documents.h"
#include "core/data/records/json_records.h"
#include "core/data/records/line_records.h"
#include "core/data/records/table_records.h"
#include "core/data/records/text_record.h"
#include "core/json/json_file.h"

namespace llmtrain {

namespace {

// A list of documents, or documents one after another, and conversations, which are not to pass for text. Other JSON,
// such as a program's settings, is text.
bool is_json_of_documents(const std::filesystem::path& file, const std::string& key) {
  if (!is_json(file)) return false;
  Record record;
  try {
    JsonRecordReader reader(file);
    if (!reader.next(record)) return false;
    document_of(record, file, key);
    return true;
  } catch (const Error&) {
    // Whoever reads it as rows says what is missing.
    return is_of_conversations(record);
  }
}

// All rows of a table in columns have the keys of its first.
void require_column(const std::filesystem::path& file, const std::string& key) {
  Record first;
  if (!open_column_table(file)->next(first)) return;
  const auto row = nlohmann::ordered_json::parse(first.text, nullptr, false);
  if (!row.is_object() || row.contains(key)) return;
  std::vector<std::string> columns;
  for (const auto& [name, value] : row.items()) columns.push_back(quoted_text(name));
  throw Error(ExitCode::bad_data,
              fmt::format("{}: has no column {}; its columns are {}; name one of them by data.train[].text_key (--key "
                          "of the data commands), or leave the file out of the pattern",
                          file.string(), quoted_text(key), fmt::join(columns, ", ")));
}

}  // namespace

std::unique_ptr<RecordReader> open_document_records(const std::filesystem::path& file, const std::string& key) {
  if (is_json_lines(file)) return std::make_unique<LineReader>(file);
  if (is_csv(file)) return std::make_unique<CsvReader>(file, key);
  if (is_column_table(file)) {
    require_column(file, key);
    return open_column_table(file);
  }
  if (is_json_of_documents(file, key)) return std::make_unique<JsonRecordReader>(file);
  if (key != document_key)
    throw Error(ExitCode::bad_data, file.string() + ": has no rows with a text at " + quoted_text(key) +
                                        ", which data.train[].text_key (--key of the data commands) names; leave it "
                                        "out for files of text, or the file out of the pattern");
  return std::make_unique<TextReader>(file);
}

std::unique_ptr<RecordReader> open_conversation_records(const std::filesystem::path& file) {
  if (is_json_lines(file)) return std::make_unique<LineReader>(file);
  if (is_json(file)) return std::make_unique<JsonRecordReader>(file);
  if (is_csv(file)) return std::make_unique<CsvReader>(file);
  if (is_column_table(file)) return open_column_table(file);
  throw Error(ExitCode::bad_data,
              file.string() +
                  ": is none of JSON Lines (.jsonl, .ndjson), JSON (.json) and a table (.csv, .tsv, .parquet, .arrow), "
                  "packed by gzip or zstd or not, of which data.fine_tuning needs one");
}

bool has_rows(const std::filesystem::path& file, const std::string& key) {
  return is_json_lines(file) || is_csv(file) || is_column_table(file) || is_json_of_documents(file, key);
}

double share_read(const RecordReader& reader, const std::filesystem::path& file) {
  std::error_code unknown;
  const auto all = static_cast<double>(std::filesystem::file_size(file, unknown));
  return unknown || all < 1 ? 1 : std::min(1.0, static_cast<double>(reader.position()) / all);
}

}  // namespace llmtrain
