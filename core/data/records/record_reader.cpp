// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/record_reader.h"

#include <algorithm>
#include <system_error>

#include "core/base/error.h"
#include "core/data/records/json_records.h"
#include "core/data/records/line_records.h"
#include "core/data/records/text_record.h"

namespace llmtrain {

std::unique_ptr<RecordReader> open_document_records(const std::filesystem::path& file) {
  if (is_json_lines(file)) return std::make_unique<LineReader>(file);
  return std::make_unique<TextReader>(file);
}

std::unique_ptr<RecordReader> open_conversation_records(const std::filesystem::path& file) {
  if (is_json_lines(file)) return std::make_unique<LineReader>(file);
  if (is_json(file)) return std::make_unique<JsonRecordReader>(file);
  throw Error(ExitCode::bad_data, file.string() +
                                      ": is neither JSON Lines (.jsonl, .ndjson) nor JSON (.json), packed by gzip or "
                                      "zstd or not, which data.fine_tuning needs");
}

double share_read(const RecordReader& reader, const std::filesystem::path& file) {
  std::error_code unknown;
  const auto all = static_cast<double>(std::filesystem::file_size(file, unknown));
  return unknown || all < 1 ? 1 : std::min(1.0, static_cast<double>(reader.position()) / all);
}

}  // namespace llmtrain
