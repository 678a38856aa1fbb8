// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace llmtrain {

// Whether the path leads to something, through links too; false where that cannot be seen.
bool path_exists(const std::filesystem::path& path);
// The same of the path itself: a link counts, also one that leads nowhere.
bool entry_exists(const std::filesystem::path& path);

// The whole file. Throws Error(missing_input) when it does not exist, Error(bad_data) when it cannot be read.
std::string read_file(const std::filesystem::path& file);

// Opens a regular file for writing, by the flags of open(2), and never another one than that of this name: a link is
// not followed, because whoever may write in a folder could lead it to a file of somebody else's. The caller closes it.
// Throws Error(cannot_write) that names `named`.
int open_own(const std::filesystem::path& file, int flags, const std::filesystem::path& named);

// Locks of files: many may hold a shared one at once, or one an exclusive one.
enum class FileLock { shared, exclusive };

enum class FileLocking {
  held,     // with the open file: the kernel releases it with the last descriptor, in whatever way the process ends
  taken,    // another open file of this or another process, on any machine that sees the file, holds one against it
  without,  // its file system has no locks; errno says why
};

// Locks an open file or folder (flock(2)). Does not block.
FileLocking try_lock(int descriptor, FileLock lock);

// The descriptor of an open file, closed with the last copy.
using OpenFile = std::shared_ptr<const int>;

// Opens a file by the flags of open(2), for this process alone; null, with the reason in errno, where that fails. A
// file that is created may be read by all and written by its owner.
OpenFile open_file(const std::filesystem::path& file, int flags);

// Replaces `file` by a FileWriter.
void write_file_atomically(const std::filesystem::path& file, std::string_view text);

// Creates a folder, and those above it, where there is none. Throws Error(cannot_write).
void create_folder(const std::filesystem::path& folder);

// Flushes a folder's entries to the disk, so that a rename in it survives a power failure. Throws Error(cannot_write).
void flush_directory(const std::filesystem::path& directory);

// Writes all bytes to an open file, however many calls that takes. False, with the reason in errno, where it fails.
bool write_all(int descriptor, const void* bytes, std::size_t count);

// A file that is written sequentially and replaced whole, so that a reader sees the old content or the new one, never a
// part: what is written goes to a new file beside it, NAME.tmp, which close() flushes to the disk and renames. A link
// of that name is itself replaced; where it led is left alone. Destroyed before close(), it leaves everything as it
// was. Every failure (a full disk too) is Error(cannot_write) that names the file and the reason.
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path file);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* bytes, std::size_t count);
  void close();

 private:
  [[noreturn]] void fail(std::string_view action) const;

  std::filesystem::path file_, aside_;
  int descriptor_ = -1;
  std::int64_t written_ = 0, sent_ = 0;  // bytes, and those of them whose way to the disk has begun
};

// A file mapped for reading. The bytes live as long as the object. Throws Error(missing_input) or Error(bad_data).
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

  // The part of bytes() is not needed soon: its pages no longer count as this process's memory. It may be read again.
  void release(std::span<const std::byte> part) const noexcept;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace llmtrain
