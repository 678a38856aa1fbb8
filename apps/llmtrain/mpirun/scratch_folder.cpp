// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/mpirun/scratch_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

namespace llmtrain::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "llmtrain-ranks-";
// Until it is locked, so that nobody takes it for abandoned.
constexpr std::string_view first_name = "llmtrain-new-XXXXXX";

int open_folder(const fs::path& folder) {
  return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void remove_if_abandoned(const fs::path& folder) {
  const int descriptor = open_folder(folder);
  if (descriptor < 0) return;
  struct stat status {};
  const bool is_ours = ::fstat(descriptor, &status) == 0 && status.st_uid == ::geteuid();
  std::error_code left_alone;
  if (is_ours && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) fs::remove_all(folder, left_alone);
  ::close(descriptor);
}

}  // namespace

ScratchFolder::ScratchFolder(const fs::path& parent) {
  std::string first = (parent / first_name).string();
  if (::mkdtemp(first.data()) == nullptr)
    throw fs::filesystem_error("cannot be created", first, std::error_code(errno, std::generic_category()));
  lock_ = open_folder(first);
  // Without a lock, as on some network file systems, it would be taken for abandoned under the other name.
  const bool is_locked = lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) == 0;
  path_ = is_locked ? parent / (std::string(prefix) + first.substr(first.size() - 6)) : fs::path(first);
  if (is_locked && ::rename(first.c_str(), path_.c_str()) != 0) path_ = first;
}

ScratchFolder::~ScratchFolder() {
  std::error_code left_to_the_next;
  fs::remove_all(path_, left_to_the_next);
  if (lock_ >= 0) ::close(lock_);
}

void ScratchFolder::remove_abandoned(const fs::path& parent) {
  std::error_code failed;
  const fs::directory_iterator end;
  for (fs::directory_iterator entry(parent, failed); !failed && entry != end; entry.increment(failed))
    if (entry->path().filename().string().starts_with(prefix)) remove_if_abandoned(entry->path());
}

}  // namespace llmtrain::app
