// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/checkpoint/safetensors.h"
#include "core/checkpoint/safetensors_dtype.h"
#include "core/checkpoint/safetensors_header.h"

namespace llmtrain {
namespace {

std::int64_t checked_bytes(const SafetensorsTensor& tensor) {
  const auto bytes = safetensors_bytes(tensor.dtype, tensor.shape);
  if (!bytes || (tensor.data == nullptr && *bytes > 0) || tensor.name.empty() || tensor.name == "__metadata__")
    throw Error(ExitCode::internal_error, "the tensor \"" + tensor.name + "\" of dtype " + tensor.dtype +
                                              " cannot be written to a safetensors file");
  return *bytes;
}

// The strict reader must accept what is written: no duplicate names, none with control characters.
void check_header(const std::string& header, const std::filesystem::path& file) {
  try {
    parse_safetensors_header(header, file.string());
  } catch (const Error& error) {
    throw Error(ExitCode::internal_error, error.what());
  }
}

// The same order as the reference implementation: equal tensors give equal files.
void sort_as_reference(std::vector<SafetensorsTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    const auto first = safetensors_order(a.dtype);
    const auto second = safetensors_order(b.dtype);
    return first != second ? first > second : a.name < b.name;
  });
}

std::string header_of(const std::vector<SafetensorsTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json::object_t header;
  if (!metadata.empty()) header.emplace_back("__metadata__", metadata);
  std::int64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const std::int64_t end = offset + checked_bytes(tensor);
    nlohmann::ordered_json entry;
    entry["dtype"] = tensor.dtype;
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {offset, end};
    // Appended directly: inserting by key would compare with every earlier one. check_header() finds duplicates.
    header.emplace_back(tensor.name, std::move(entry));
    offset = end;
  }
  std::string text = nlohmann::ordered_json(std::move(header)).dump();
  // Padding aligns the data, which starts right after the header.
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

// Bytes are written and hashed piece by piece, so that they are read from memory once and hashed from the cache.
class HashingWriter {
 public:
  explicit HashingWriter(const std::filesystem::path& file) : writer_(file) {}

  void write(const void* bytes, std::size_t count) {
    // Small enough to stay in the processor's cache between hashing and writing.
    constexpr std::size_t piece = 1 << 20;
    const char* next = static_cast<const char*>(bytes);
    for (std::size_t done = 0; done < count; done += piece) {
      const std::size_t now = std::min(piece, count - done);
      hash_.update(next + done, now);
      writer_.write(next + done, now);
    }
    bytes_ += static_cast<std::int64_t>(count);
  }

  WrittenFile close() {
    writer_.close();
    return {bytes_, hash_.hexadecimal()};
  }

 private:
  FileWriter writer_;
  Sha256 hash_;
  std::int64_t bytes_ = 0;
};

void write_length(HashingWriter& writer, std::size_t length) {
  std::array<unsigned char, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(length >> (8 * i));
  writer.write(bytes.data(), bytes.size());
}

void put_in_place(const std::filesystem::path& aside, const std::filesystem::path& file) {
  std::error_code error;
  std::filesystem::rename(aside, file, error);
  if (error) {
    // The error of the rename is the one to report.
    std::error_code ignored;
    std::filesystem::remove(aside, ignored);
    throw Error(ExitCode::cannot_write, file.string() + ": cannot be replaced: " + error.message());
  }
  flush_directory(file.parent_path());
}

}  // namespace

WrittenFile write_safetensors(const std::filesystem::path& file, std::vector<SafetensorsTensor> tensors,
                              const std::map<std::string, std::string>& metadata) {
  sort_as_reference(tensors);
  const std::string header = header_of(tensors, metadata);
  if (header.size() > safetensors_header_limit)
    throw Error(ExitCode::internal_error, file.string() + ": too many tensors for the header of one safetensors file");
  check_header(header, file);

  // A reader sees the earlier file until the new one is whole and on the disk.
  const std::filesystem::path aside = file.string() + ".tmp";
  HashingWriter writer(aside);
  write_length(writer, header.size());
  writer.write(header.data(), header.size());
  for (const SafetensorsTensor& tensor : tensors)
    writer.write(tensor.data, static_cast<std::size_t>(checked_bytes(tensor)));
  WrittenFile written = writer.close();
  put_in_place(aside, file);
  return written;
}

}  // namespace llmtrain
