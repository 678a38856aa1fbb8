// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/mapping_guard.h"

namespace llmtrain {
namespace {

// Why the last system call failed; must be taken before another call overwrites errno.
std::string reason() { return std::strerror(errno); }

int open_for_reading(const std::filesystem::path& file, struct stat& status) {
  // O_NONBLOCK, because opening a FIFO would otherwise wait for a writer before it can be refused.
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const auto code = errno == ENOENT || errno == ENOTDIR ? ExitCode::missing_input : ExitCode::bad_data;
    throw Error(code, file.string() + ": cannot be opened: " + reason());
  }
  // Asked for the descriptor rather than the path, behind which there may be another file by now.
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw Error(ExitCode::bad_data, file.string() + ": is not a regular file");
  }
  return descriptor;
}

// Whether the name stands for a device, a pipe or an open file (/dev/stdout), which must not be replaced by a file.
bool is_special(const std::filesystem::path& file) {
  std::error_code failure;
  const auto status = std::filesystem::status(file, failure);
  const bool is_plain = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status) ||
                        std::filesystem::is_directory(status);
  return !is_plain || std::filesystem::read_symlink(file, failure).string().starts_with("/proc/");
}

}  // namespace

bool path_exists(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

bool entry_exists(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::exists(std::filesystem::symlink_status(path, unknown));
}

std::string read_file(const std::filesystem::path& file) {
  struct stat status {};
  const int descriptor = open_for_reading(file, status);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const auto count = ::read(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    // 0: the file became shorter since it was opened, which is an error below.
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  const bool whole = done == text.size();
  ::close(descriptor);
  if (!whole) throw Error(ExitCode::bad_data, file.string() + ": cannot be read to its end: " + reason());
  return text;
}

int open_own(const std::filesystem::path& file, int flags, const std::filesystem::path& named) {
  // O_NONBLOCK, because opening a FIFO would otherwise wait for a reader.
  const int descriptor = ::open(file.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  if (descriptor < 0 && errno == ELOOP)
    throw Error(ExitCode::cannot_write, file.string() + ": is a link, which is not followed; remove it");
  if (descriptor < 0) throw Error(ExitCode::cannot_write, named.string() + ": cannot be created: " + reason());
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) return descriptor;
  ::close(descriptor);
  throw Error(ExitCode::cannot_write, file.string() + ": is not a regular file; remove it");
}

FileLocking try_lock(int descriptor, FileLock lock) {
  if (::flock(descriptor, (lock == FileLock::shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) return FileLocking::held;
  // Only this error means that somebody holds it.
  return errno == EWOULDBLOCK ? FileLocking::taken : FileLocking::without;
}

OpenFile open_file(const std::filesystem::path& file, int flags) {
  const int descriptor = ::open(file.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor < 0) return nullptr;
  return {new int(descriptor), [](const int* open) {
            ::close(*open);
            delete open;
          }};
}

void write_file_atomically(const std::filesystem::path& file, std::string_view text) {
  FileWriter writer(file);
  writer.write(text.data(), text.size());
  writer.close();
}

void create_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw Error(ExitCode::cannot_write, folder.string() + ": cannot be created: " + failure.message());
}

void flush_directory(const std::filesystem::path& directory) {
  const std::filesystem::path folder = directory.empty() ? std::filesystem::path(".") : directory;
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool flushed = descriptor >= 0 && ::fsync(descriptor) == 0;
  const std::string why = reason();
  if (descriptor >= 0) ::close(descriptor);
  if (!flushed) throw Error(ExitCode::cannot_write, folder.string() + ": cannot be flushed to the disk: " + why);
}

bool write_all(int descriptor, const void* bytes, std::size_t count) {
  const char* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const auto written = ::write(descriptor, next, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    next += written;
    count -= static_cast<std::size_t>(written);
  }
  return true;
}

// Large enough for a disk's full rate.
constexpr std::size_t bytes_sent_at_once = 8 << 20;

FileWriter::FileWriter(std::filesystem::path file) : file_(std::move(file)), aside_(file_.string() + ".tmp") {
  if (is_special(file_))
    throw Error(ExitCode::cannot_write, file_.string() + ": is not a regular file; name another one");
  // What a killed process has left there, or somebody has put there.
  ::unlink(aside_.c_str());
  descriptor_ = open_own(aside_, O_WRONLY | O_CREAT | O_EXCL, file_);
}

// Destroyed before close(): the write has failed, and an incomplete file must not stay.
FileWriter::~FileWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(aside_.c_str());
}

void FileWriter::write(const void* bytes, std::size_t count) {
  const char* const first = static_cast<const char*>(bytes);
  for (std::size_t done = 0; done < count; done += bytes_sent_at_once) {
    const std::size_t now = std::min(bytes_sent_at_once, count - done);
    if (!write_all(descriptor_, first + done, now)) fail("cannot be written");
    written_ += static_cast<std::int64_t>(now);
    const std::int64_t unsent = written_ - sent_;
    if (unsent < static_cast<std::int64_t>(bytes_sent_at_once)) continue;
    // Begins to write to the disk what would else wait for close(), beside whoever makes the next bytes. A hint, which
    // not all file systems take; only close() says that all is there.
    ::sync_file_range(descriptor_, sent_, unsent, SYNC_FILE_RANGE_WRITE);
    sent_ = written_;
  }
}

void FileWriter::close() {
  // A full disk or a failing one may only show here.
  if (::fsync(descriptor_) != 0) fail("cannot be flushed to the disk");
  const int descriptor = std::exchange(descriptor_, -1);
  // The content is on the disk by now: otherwise a power failure could leave the new name with an empty file.
  const bool is_closed = ::close(descriptor) == 0;
  if (!is_closed || ::rename(aside_.c_str(), file_.c_str()) != 0) {
    const std::string why = reason();
    ::unlink(aside_.c_str());
    throw Error(ExitCode::cannot_write,
                file_.string() + (is_closed ? ": cannot be replaced: " : ": cannot be closed: ") + why);
  }
  // The rename itself is only durable once the folder is flushed.
  flush_directory(file_.parent_path());
}

void FileWriter::fail(std::string_view action) const {
  throw Error(ExitCode::cannot_write, file_.string() + ": " + std::string(action) + ": " + reason());
}

MappedFile::MappedFile(const std::filesystem::path& file) {
  struct stat status {};
  const int descriptor = open_for_reading(file, status);
  size_ = static_cast<std::size_t>(status.st_size);
  // mmap() refuses an empty range. Shared and read-only, so that the ranks of a node use the same pages.
  void* address = size_ == 0 ? nullptr : ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
  const std::string why = reason();
  ::close(descriptor);
  if (address == MAP_FAILED) throw Error(ExitCode::bad_data, file.string() + ": cannot be mapped: " + why);
  data_ = static_cast<const std::byte*>(address);
  if (data_ != nullptr) guard_mapping(data_, size_, file);
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  unguard_mapping(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::span<const std::byte> part) const noexcept {
  // A read maps the pages around the one that it needs, too (Linux: fault_around_bytes), which a neighbour that was
  // released before would keep. The next read of a page that is dropped too early brings it back, so a failure and
  // pages that other parts share do no harm.
  constexpr std::size_t around = std::size_t{64} << 10;
  const auto begin = static_cast<std::size_t>(part.data() - data_) / around * around;
  const auto end = static_cast<std::size_t>(part.data() + part.size() - data_);
  const std::size_t last = std::min(size_, (end + around - 1) / around * around);
  if (end > begin) ::madvise(const_cast<std::byte*>(data_) + begin, last - begin, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace llmtrain
