// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/base/file.h"

namespace llmtrain::app {

// A new folder of this process's own, for files that the processes which it starts share. It goes with the process: the
// destructor removes it with what it holds, and where the process was killed, the next one of the same user that calls
// remove_abandoned(). A lock tells whether there still is a process, also to one in another container.
class ScratchFolder {
 public:
  // Throws std::filesystem::filesystem_error where it cannot be created.
  explicit ScratchFolder(const std::filesystem::path& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Removes what processes of this user that were killed have left in the folder `parent`.
  static void remove_abandoned(const std::filesystem::path& parent);

 private:
  std::filesystem::path path_;
  OpenFile lock_;
};

}  // namespace llmtrain::app
