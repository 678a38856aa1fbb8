// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace llmtrain {

// A file that is appended to and that a later process may go on with: it stays when it is destroyed. One process may
// have it open at a time. Every failure is Error(cannot_write) that names the file and the reason.
class GrowingFile {
 public:
  // Keeps the first `bytes` of the file, which is created where there is none.
  GrowingFile(std::filesystem::path file, std::int64_t bytes);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  void append(const void* bytes, std::size_t count);
  // Replaces bytes within the file.
  void overwrite(std::int64_t offset, const void* bytes, std::size_t count);
  // Blocks until all is on the disk.
  void flush();

 private:
  [[noreturn]] void fail(std::string_view action) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
};

}  // namespace llmtrain
