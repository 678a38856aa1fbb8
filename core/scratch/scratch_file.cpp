// SPDX-License-Identifier: Apache-2.0
#include "core/scratch/scratch_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <spdlog/fmt/fmt.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/units.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// Another thread's or process's file never has the name.
std::string template_in(const fs::path& folder) { return (folder / ".scratch-XXXXXX").string(); }

// Free for this process; 0 where that cannot be seen.
std::int64_t free_bytes(int descriptor) {
  struct statvfs state {};
  if (::fstatvfs(descriptor, &state) != 0) return 0;
  return static_cast<std::int64_t>(state.f_bavail) * static_cast<std::int64_t>(state.f_frsize);
}

// Moves all bytes by pread(2) or pwrite(2), however many calls that takes; what the call that ended it early returned,
// else 1.
template <class Byte, class Move>
ssize_t move_all(std::span<Byte> bytes, std::int64_t offset, Move move) {
  while (!bytes.empty()) {
    const ssize_t moved = move(bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved;
    bytes = bytes.subspan(static_cast<std::size_t>(moved));
    offset += moved;
  }
  return 1;
}

}  // namespace

ScratchFile::ScratchFile(fs::path folder, std::int64_t bytes, std::string key)
    : folder_(std::move(folder)), bytes_(aligned(bytes)), key_(std::move(key)) {
  try {
    create_folder(folder_);
  } catch (const Error& error) {
    throw Error(error.code(), key_ + ": " + error.what());
  }
  std::string name = template_in(folder_);
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) fail("cannot be created", errno);
  file_ = OpenFile(new int(descriptor), [](const int* open) {
    ::close(*open);
    delete open;
  });
  if (::unlink(name.c_str()) != 0) fail("cannot be made nameless", errno);
  reserve();
  choose_direct();
}

void ScratchFile::reserve() const {
  if (bytes_ == 0) return;
  // Asked first: a file system may fill itself up before it says that it is full.
  if (const std::int64_t free = free_bytes(*file_); free < bytes_) fail("has no room", ENOSPC);
  if (const int reason = ::posix_fallocate(*file_, 0, bytes_); reason != 0) fail("has no room", reason);
}

// File systems differ in whether they refuse it when it is asked for or when it is used.
void ScratchFile::choose_direct() {
  if (bytes_ == 0) return;
  const int flags = ::fcntl(*file_, F_GETFL);
  if (flags < 0 || ::fcntl(*file_, F_SETFL, flags | O_DIRECT) != 0) return;
  const std::unique_ptr<std::byte, void (*)(void*)> block(
      static_cast<std::byte*>(std::aligned_alloc(alignment, alignment)), std::free);
  std::memset(block.get(), 0, alignment);
  is_direct_ = ::pwrite(*file_, block.get(), alignment, 0) == alignment &&
               ::pread(*file_, block.get(), alignment, 0) == alignment;
  if (!is_direct_ && ::fcntl(*file_, F_SETFL, flags) != 0) fail("cannot be read", errno);
}

bool ScratchFile::is_in_memory() const {
  struct statfs state {};
  return ::fstatfs(*file_, &state) == 0 && (state.f_type == TMPFS_MAGIC || state.f_type == RAMFS_MAGIC);
}

void ScratchFile::read(std::int64_t offset, std::span<std::byte> to) const {
  const ssize_t end = move_all(
      to, offset, [this](std::byte* data, std::size_t count, off_t at) { return ::pread(*file_, data, count, at); });
  // The end of the file, which is as long as what was asked for: something has cut it.
  if (end <= 0) fail("cannot be read", end < 0 ? errno : EIO);
}

void ScratchFile::write(std::int64_t offset, std::span<const std::byte> from) const {
  const ssize_t end = move_all(from, offset, [this](const std::byte* data, std::size_t count, off_t at) {
    return ::pwrite(*file_, data, count, at);
  });
  if (end <= 0) fail("cannot be written", end < 0 ? errno : ENOSPC);
}

void ScratchFile::fail(const std::string& what, int reason) const {
  const std::string space = reason == ENOSPC && file_ ? fmt::format("; {} are needed and {} free", format_bytes(bytes_),
                                                                    format_bytes(free_bytes(*file_)))
                                                      : std::string();
  throw Error(ExitCode::cannot_write,
              fmt::format("{}: {}: a file of {} {}: {} (errno {}){}; name a folder of a local disk with that much room "
                          "that is in order, or keep this in memory",
                          key_, folder_.string(), format_bytes(bytes_), what, std::generic_category().message(reason),
                          reason, space));
}

}  // namespace llmtrain
