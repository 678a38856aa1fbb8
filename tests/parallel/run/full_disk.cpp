// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/run/full_disk.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace llmtrain::test {

std::string limit_room(const std::filesystem::path& folder, std::size_t bytes) {
  const std::string size = "size=" + std::to_string(bytes);
  if (::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      ::mount("none", folder.c_str(), "tmpfs", 0, size.c_str()) == 0)
    return std::strerror(ENOSPC);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) throw std::runtime_error("the size of files cannot be limited");
  return std::strerror(EFBIG);
}

}  // namespace llmtrain::test
