// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "apps/llmtrain/launch/scratch_folder.h"

namespace llmtrain::app {

// Where mpirun and the ranks of one machine keep the files through which they exchange, as long as this object lives.
// Open MPI would use the folders' parents themselves, and leave its files there if it is killed.
class SharedFiles {
 public:
  // The parents are Open MPI's: what its settings orte_tmpdir_base and btl_vader_backing_directory name, else TMPDIR
  // and /dev/shm. Sets those settings in the environment. Removes what killed runs of this user have left. Throws
  // Error(cannot_write) where a parent cannot be written or has no room for `ranks` ranks: mpirun and its ranks would
  // wait for each other for ever, or end without a word.
  explicit SharedFiles(std::int64_t ranks);

 private:
  std::optional<ScratchFolder> session_{}, memory_{};
};

}  // namespace llmtrain::app
