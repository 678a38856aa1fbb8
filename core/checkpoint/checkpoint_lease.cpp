// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/checkpoint_lease.h"

#include <fcntl.h>

#include "core/base/file.h"
#include "core/checkpoint/file_in_place.h"

namespace llmtrain {
namespace fs = std::filesystem;

CheckpointGone::CheckpointGone(const fs::path& folder)
    : Error(ExitCode::missing_input, folder.string() +
                                         ": was removed while it was opened, as a run removes its older checkpoints "
                                         "(checkpoint.keep); name another one, or the run, meaning its newest") {}

CheckpointLease CheckpointLease::to_read(const fs::path& folder) {
  const fs::path file = folder / "manifest.json";
  CheckpointLease lease;
  // A pipe in place of the file would block.
  lease.file_ = open_file(file, O_RDONLY | O_NONBLOCK);
  if (!lease.file_) return lease;
  // Between the opening and the lock it may have been renamed and removed, or replaced.
  if (try_lock(*lease.file_, FileLock::shared) == FileLocking::taken || !is_in_place(file, *lease.file_))
    throw CheckpointGone(folder);
  return lease;
}

OpenFile CheckpointLease::to_remove(const fs::path& folder) {
  const fs::path file = folder / "manifest.json";
  // NFS locks a file exclusively only where it is open for writing.
  OpenFile held = open_file(file, O_RDWR | O_NONBLOCK);
  if (!held) held = open_file(file, O_RDONLY | O_NONBLOCK);
  // Damaged, and read by nobody.
  if (!held) return std::make_shared<const int>(-1);
  return try_lock(*held, FileLock::exclusive) == FileLocking::taken ? nullptr : held;
}

}  // namespace llmtrain
