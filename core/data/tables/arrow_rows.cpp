// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/arrow_rows.h"

#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <parquet/arrow/reader.h>
#include <parquet/properties.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/data/records/bad_lines.h"
#include "core/data/tables/arrow_values.h"

namespace llmtrain {
namespace {

constexpr std::int64_t rows_at_a_time = 256;

std::string beginning_of(const std::filesystem::path& file) {
  std::string bytes(6, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

// The batches of a file, whose footer has their places.
class FileBatches final : public arrow::RecordBatchReader {
 public:
  explicit FileBatches(std::shared_ptr<arrow::ipc::RecordBatchFileReader> file) : file_(std::move(file)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return file_->schema(); }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    batch->reset();
    if (next_ == file_->num_record_batches()) return arrow::Status::OK();
    return file_->ReadRecordBatch(next_++).Value(batch);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
  int next_ = 0;
};

arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> open_parquet(
    const std::shared_ptr<arrow::io::RandomAccessFile>& file) {
  parquet::ReaderProperties pages;
  pages.enable_buffered_stream();
  parquet::ArrowReaderProperties rows(false);
  rows.set_pre_buffer(false);
  rows.set_batch_size(rows_at_a_time);
  parquet::arrow::FileReaderBuilder builder;
  ARROW_RETURN_NOT_OK(builder.Open(file, pages));
  return builder.properties(rows)->Build();
}

// Parquet's reader owns what its batches are read from.
class ParquetBatches final : public arrow::RecordBatchReader {
 public:
  ParquetBatches(std::unique_ptr<parquet::arrow::FileReader> file, std::shared_ptr<arrow::RecordBatchReader> batches)
      : file_(std::move(file)), batches_(std::move(batches)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return batches_->schema(); }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override { return batches_->ReadNext(batch); }

 private:
  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::shared_ptr<arrow::RecordBatchReader> batches_;
};

}  // namespace

template <class Result>
auto ArrowRows::checked(Result result) const {
  if (!result.ok()) {
    const std::string reason = result.status().message();
    throw Error(ExitCode::bad_data,
                fmt::format("{}: cannot be read as Parquet or Arrow, after {}: {}; copy or write it "
                            "again",
                            file_.string(), format_number_of(row_, "row"), reason));
  }
  return std::move(result).ValueUnsafe();
}

ArrowRows::ArrowRows(std::filesystem::path file) : file_(std::move(file)) {
  std::error_code unknown;
  file_bytes_ = static_cast<std::int64_t>(std::filesystem::file_size(file_, unknown));
  const auto input = checked(arrow::io::ReadableFile::Open(file_.string()));
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  const std::string beginning = beginning_of(file_);
  if (beginning.starts_with("PAR1")) {
    auto parquet = checked(open_parquet(input));
    all_rows_ = parquet->parquet_reader()->metadata()->num_rows();
    auto batches = checked(parquet->GetRecordBatchReader());
    batches_ = std::make_shared<ParquetBatches>(std::move(parquet), std::move(batches));
  } else if (beginning == "ARROW1") {
    batches_ = std::make_shared<FileBatches>(checked(arrow::ipc::RecordBatchFileReader::Open(input, options)));
  } else {
    batches_ = checked(arrow::ipc::RecordBatchStreamReader::Open(input, options));
  }
}

bool ArrowRows::next_batch() {
  do {
    in_batch_ = 0;
    batch_ = checked(batches_->Next());
  } while (batch_ && batch_->num_rows() == 0);
  if (batch_) {
    const arrow::Status valid = batch_->ValidateFull();
    if (!valid.ok()) checked(arrow::Result<int>(valid));
  }
  return batch_ != nullptr;
}

bool ArrowRows::next(Record& record) {
  if (!batch_ || in_batch_ == batch_->num_rows())
    if (!next_batch()) return false;
  nlohmann::ordered_json row = nlohmann::ordered_json::object();
  for (int column = 0; column < batch_->num_columns(); ++column)
    row[batch_->column_name(column)] = json_value(*batch_->column(column), in_batch_);
  ++in_batch_;
  record = {row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace), ++row_};
  if (record.text.size() > longest_line)
    throw BadLine(file_, row_,
                  fmt::format("is longer than {}, the most that one may have",
                              format_bytes(static_cast<std::int64_t>(longest_line))));
  return true;
}

void ArrowRows::skip(std::int64_t offset, std::int64_t) {
  while (row_ < offset && next_batch()) {
    in_batch_ = std::min(batch_->num_rows(), offset - row_);
    row_ += in_batch_;
  }
}

std::int64_t ArrowRows::position() const {
  if (all_rows_ == 0) return 0;
  return static_cast<std::int64_t>(static_cast<double>(file_bytes_) * static_cast<double>(row_) /
                                   static_cast<double>(all_rows_));
}

}  // namespace llmtrain
