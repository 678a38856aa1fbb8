// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <filesystem>

namespace llmtrain {

// Whether the file of that name is the one that is open. By device and inode: a folder that was moved away and made
// again has a file of that name, too.
inline bool is_in_place(const std::filesystem::path& file, int descriptor) {
  struct stat named {
  }, held{};
  return ::stat(file.c_str(), &named) == 0 && ::fstat(descriptor, &held) == 0 && named.st_dev == held.st_dev &&
         named.st_ino == held.st_ino;
}

}  // namespace llmtrain
