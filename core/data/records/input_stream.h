// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace llmtrain {

// A file read from its beginning, unpacked where its name ends in .gz or .zst.
class InputStream {
 public:
  virtual ~InputStream() = default;
  // Fills the start of `buffer` and returns how many bytes it has; 0 only at the end. Throws Error(bad_data) where the
  // file is damaged or cut short.
  virtual std::size_t read(std::span<char> buffer) = 0;
  // Passes over the next `bytes` of what read() returns, or all that is left.
  virtual void skip(std::int64_t bytes);
  // Bytes of the file itself that have been read, for progress.
  virtual std::int64_t position() const = 0;
};

// Throws Error(missing_input) or Error(bad_data).
std::unique_ptr<InputStream> open_input(const std::filesystem::path& file);

// Whether the name ends in .gz or .zst.
bool is_compressed(const std::filesystem::path& file);

}  // namespace llmtrain
