// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "core/base/error.h"
#include "core/base/file.h"

namespace llmtrain {

// What opening a checkpoint throws that is not there any more, or is being removed: Error(missing_input). Runs remove
// their older checkpoints (checkpoint.keep) at any time.
class CheckpointGone : public Error {
 public:
  explicit CheckpointGone(const std::filesystem::path& folder);
};

// Keeps a checkpoint from being removed to make room for newer ones, on all machines that see the folder: a lock on its
// manifest.json, which any number of readers share and which the kernel releases with their processes. On file systems
// without locks it keeps nothing. Copies share it.
class CheckpointLease {
 public:
  // For a reader. Throws CheckpointGone. A folder without a readable manifest.json gets a lease of nothing: who reads
  // it finds that out.
  static CheckpointLease to_read(const std::filesystem::path& folder);
  // For the one that removes it; keeps readers from beginning. Nothing where readers hold it.
  static OpenFile to_remove(const std::filesystem::path& folder);

 private:
  OpenFile file_;  // locked; null: nothing is kept
};

}  // namespace llmtrain
