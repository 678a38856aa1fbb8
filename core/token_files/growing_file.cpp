// SPDX-License-Identifier: Apache-2.0
#include "core/token_files/growing_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"

namespace llmtrain {

GrowingFile::GrowingFile(std::filesystem::path file, std::int64_t bytes)
    : file_(std::move(file)), descriptor_(open_own(file_, O_WRONLY | O_CREAT, file_)) {
  // File systems without locks are no reason to refuse.
  const bool is_taken = try_lock(descriptor_, FileLock::exclusive) == FileLocking::taken;
  const bool is_cut = !is_taken && ::ftruncate(descriptor_, bytes) == 0 && ::lseek(descriptor_, 0, SEEK_END) == bytes;
  if (is_cut) return;
  const int reason = errno;
  ::close(std::exchange(descriptor_, -1));
  if (is_taken)
    throw Error(ExitCode::cannot_write, file_.string() +
                                            ": another process is writing it; wait for it, or name "
                                            "another file");
  errno = reason;
  fail("cannot be cut to its intact part");
}

GrowingFile::~GrowingFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void GrowingFile::append(const void* bytes, std::size_t count) {
  if (!write_all(descriptor_, bytes, count)) fail("cannot be written");
}

void GrowingFile::overwrite(std::int64_t offset, const void* bytes, std::size_t count) {
  if (::pwrite(descriptor_, bytes, count, offset) != static_cast<ssize_t>(count)) fail("cannot be written");
}

void GrowingFile::flush() {
  // A full disk or a failing one may only show here.
  if (::fsync(descriptor_) != 0) fail("cannot be flushed to the disk");
}

void GrowingFile::fail(std::string_view action) const {
  throw Error(ExitCode::cannot_write, file_.string() + ": " + std::string(action) + ": " + std::strerror(errno));
}

}  // namespace llmtrain
