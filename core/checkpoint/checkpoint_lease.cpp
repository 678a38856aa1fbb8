// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/checkpoint_lease.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "core/checkpoint/file_in_place.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<const int> opened(const fs::path& file, int mode) {
  // A pipe in place of the file would block.
  const int descriptor = ::open(file.c_str(), mode | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return nullptr;
  return {new int(descriptor), [](const int* open) {
            ::close(*open);
            delete open;
          }};
}

// Whether another process has locked it; a file system that has no locks counts as free.
bool is_taken(int descriptor, int lock) { return ::flock(descriptor, lock | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

}  // namespace

CheckpointGone::CheckpointGone(const fs::path& folder)
    : Error(ExitCode::missing_input, folder.string() +
                                         ": was removed while it was opened, as a run removes its older checkpoints "
                                         "(checkpoint.keep); name another one, or the run, meaning its newest") {}

CheckpointLease CheckpointLease::to_read(const fs::path& folder) {
  const fs::path file = folder / "manifest.json";
  CheckpointLease lease;
  lease.file_ = opened(file, O_RDONLY);
  if (!lease.file_) return lease;
  // Between the opening and the lock it may have been renamed and removed, or replaced.
  if (is_taken(*lease.file_, LOCK_SH) || !is_in_place(file, *lease.file_)) throw CheckpointGone(folder);
  return lease;
}

std::shared_ptr<const int> CheckpointLease::to_remove(const fs::path& folder) {
  const fs::path file = folder / "manifest.json";
  // NFS locks a file exclusively only where it is open for writing.
  auto held = opened(file, O_RDWR);
  if (!held) held = opened(file, O_RDONLY);
  // Damaged, and read by nobody.
  if (!held) return std::make_shared<const int>(-1);
  return is_taken(*held, LOCK_EX) ? nullptr : held;
}

}  // namespace llmtrain
