// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "core/data/records/record_reader.h"

namespace llmtrain {

// Reads the rows of Parquet and of Arrow's two formats, of streams (datasets' .arrow) and of files (Feather), which the
// first bytes tell apart. A record is an object with each column's json_value(), and its line is the row's number
// from 1. Of Parquet a row group's pages are read as they are needed, so that memory grows neither with the file nor
// with the rows of a group.
class ArrowRows final : public RecordReader {
 public:
  // Throws Error(bad_data) where the file is none of these.
  explicit ArrowRows(std::filesystem::path file);

  // Throws Error(bad_data) for a file that is damaged, and BadLine for a row that is longer than longest_line.
  bool next(Record& record) override;
  // Rows.
  std::int64_t offset() const override { return row_; }
  std::int64_t lines() const override { return row_; }
  void skip(std::int64_t offset, std::int64_t lines) override;
  std::int64_t position() const override;

 private:
  bool next_batch();
  template <class Result>
  auto checked(Result result) const;

  std::filesystem::path file_;
  std::shared_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  std::int64_t in_batch_ = 0, row_ = 0;
  std::int64_t all_rows_ = 0, file_bytes_ = 0;  // 0 rows: not known
};

}  // namespace llmtrain
