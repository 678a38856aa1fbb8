// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/launch/scratch_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/file.h"

namespace llmtrain::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "llmtrain-ranks-";
// Until it is locked, so that nobody takes it for abandoned.
constexpr std::string_view first_name = "llmtrain-new-XXXXXX";

OpenFile open_folder(const fs::path& folder) { return open_file(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW); }

bool locks(const OpenFile& folder) { return try_lock(*folder, FileLock::exclusive) == FileLocking::held; }

void remove_if_abandoned(const fs::path& folder) {
  const OpenFile open = open_folder(folder);
  if (!open) return;
  struct stat status {};
  const bool is_ours = ::fstat(*open, &status) == 0 && status.st_uid == ::geteuid();
  std::error_code left_alone;
  if (is_ours && locks(open)) fs::remove_all(folder, left_alone);
}

}  // namespace

ScratchFolder::ScratchFolder(const fs::path& parent) {
  std::string first = (parent / first_name).string();
  if (::mkdtemp(first.data()) == nullptr)
    throw fs::filesystem_error("cannot be created", first, std::error_code(errno, std::generic_category()));
  lock_ = open_folder(first);
  // Without a lock, as on some network file systems, it would be taken for abandoned under the other name.
  const bool is_locked = lock_ && locks(lock_);
  path_ = is_locked ? parent / (std::string(prefix) + first.substr(first.size() - 6)) : fs::path(first);
  if (is_locked && ::rename(first.c_str(), path_.c_str()) != 0) path_ = first;
}

ScratchFolder::~ScratchFolder() {
  std::error_code left_to_the_next;
  fs::remove_all(path_, left_to_the_next);
}

void ScratchFolder::remove_abandoned(const fs::path& parent) {
  std::error_code failed;
  const fs::directory_iterator end;
  for (fs::directory_iterator entry(parent, failed); !failed && entry != end; entry.increment(failed))
    if (entry->path().filename().string().starts_with(prefix)) remove_if_abandoned(entry->path());
}

}  // namespace llmtrain::app
