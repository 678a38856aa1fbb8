// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/base/file.h"

namespace llmtrain {

// Memory of this process on a disk. The file has no name from the moment at which it is there: no other process finds
// it, and the system frees it when this one ends, in whatever way. What is in it is therefore never that of another
// run, or of one that was killed. It reads as zeros where nothing was written.
//
// It is read and written past the system's page cache (O_DIRECT), which would else keep a second copy in memory, where
// the file system allows that. Failures are Error(cannot_write) that name `key`, the recipe's key of the folder, the
// folder and the reason with its errno. Several threads may call it.
class ScratchFile {
 public:
  // Offsets, sizes and addresses are multiples of it.
  static constexpr std::int64_t alignment = 4096;
  static std::int64_t aligned(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

  // Takes so many bytes of the folder's file system at once, so that it cannot be full later. The folder is created
  // where there is none.
  ScratchFile(std::filesystem::path folder, std::int64_t bytes, std::string key);

  // Block until all of it has been read or written; written bytes may still be in a cache, which the next read sees.
  void read(std::int64_t offset, std::span<std::byte> to) const;
  void write(std::int64_t offset, std::span<const std::byte> from) const;

  const std::filesystem::path& folder() const { return folder_; }
  std::int64_t bytes() const { return bytes_; }
  bool is_direct() const { return is_direct_; }
  // Whether the folder is in memory (tmpfs), where a file saves none.
  bool is_in_memory() const;

 private:
  [[noreturn]] void fail(const std::string& what, int reason) const;
  void reserve() const;
  void choose_direct();

  std::filesystem::path folder_;
  std::int64_t bytes_;
  std::string key_;
  OpenFile file_;
  bool is_direct_ = false;
};

}  // namespace llmtrain
