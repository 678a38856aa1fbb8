// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"

namespace llmtrain {

// A safetensors file: eight bytes of header length (little endian), a JSON header, the tensors' bytes (little endian,
// row-major) without gaps. https://github.com/huggingface/safetensors, README, "Format".

// Bits per element of a safetensors dtype ("F32": 32, "F4": 4); none for a name that the format does not define.
std::optional<std::int64_t> safetensors_bits(std::string_view dtype);

// Bytes of a tensor; none for an unknown dtype, a negative dimension, a part of a byte, or more than int64 holds.
std::optional<std::int64_t> safetensors_bytes(std::string_view dtype, std::span<const std::int64_t> shape);

// A tensor of a file; its bytes are [begin, end) of the data that follow the header.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// A file opened for reading: mapped, not copied. Safe against hostile files: every rule of the format is checked before
// a size is trusted, and memory grows only with the number of tensors. Stricter than the format: duplicate keys,
// unknown keys of a tensor, control characters in names, more than 64 dimensions and more than 262,144 tensors are
// refused.
class SafetensorsFile {
 public:
  // Throws Error(missing_input), or Error(bad_data) that names the file, the tensor and the rule.
  explicit SafetensorsFile(std::filesystem::path file);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // in the order of their names
  const SafetensorsEntry* find(std::string_view name) const;
  // The tensor's bytes, which need not be aligned to its elements. They live as long as this object.
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;
  // As MappedFile's.
  void release(std::span<const std::byte> part) const noexcept { mapped_.release(part); }

 private:
  std::filesystem::path path_;
  MappedFile mapped_;
  std::size_t data_start_ = 0;
  std::vector<SafetensorsEntry> entries_;
};

// Hands over the bytes of a tensor in pieces, from the first to the last, so that it is never in memory as a whole.
using WriteBytes = std::function<void(const void* bytes, std::size_t count)>;
using TensorContent = std::function<void(const WriteBytes& write)>;

// A tensor to write: contiguous, in memory that the caller owns, or `content`, which is asked once, when the file has
// come to the tensor.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
  TensorContent content{};
};

struct WrittenFile {
  std::int64_t bytes = 0;
  std::string sha256;  // of the whole file, 64 hexadecimal digits
};

// Writes a file as the reference implementation does (tensors by descending alignment, then name; the header padded to
// eight bytes): to a temporary file beside `file` that is flushed to the disk, then renamed. Blocks until it is on the
// disk. Throws Error(cannot_write), Error(internal_error) for tensors that cannot be in one file (a duplicate name, an
// unknown dtype) and for a content of another length than its shape's, and what a content throws.
WrittenFile write_safetensors(const std::filesystem::path& file, std::vector<SafetensorsTensor> tensors);

}  // namespace llmtrain
