// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/launch/rank_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace llmtrain::app {
namespace {

namespace fs = std::filesystem;

// A process that can be polled for its end, closed again when destroyed.
class ProcessHandle {
 public:
  explicit ProcessHandle(pid_t process) : descriptor_(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))) {}
  ~ProcessHandle() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ProcessHandle(ProcessHandle&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ProcessHandle& operator=(ProcessHandle&&) = delete;
  ProcessHandle(const ProcessHandle&) = delete;
  ProcessHandle& operator=(const ProcessHandle&) = delete;

  int descriptor() const noexcept { return descriptor_; }  // negative where there is no such process

 private:
  int descriptor_;
};

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code failed;
  // Each thread lists those that it has started.
  for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(process) + "/task", failed)) {
    std::ifstream list(thread.path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

// As the launcher has told the process; none before it has become a rank.
std::optional<std::int64_t> rank_of(pid_t process) {
  constexpr std::string_view name = "OMPI_COMM_WORLD_RANK=";
  std::ifstream environment("/proc/" + std::to_string(process) + "/environ", std::ios::binary);
  for (std::string entry; std::getline(environment, entry, '\0');) {
    if (!entry.starts_with(name)) continue;
    std::int64_t rank = 0;
    const char* const end = entry.data() + entry.size();
    if (std::from_chars(entry.data() + name.size(), end, rank).ptr == end) return rank;
  }
  return std::nullopt;
}

class RankWatch {
 public:
  RankWatch(pid_t launcher, std::int64_t ranks)
      : launcher_(launcher), launcher_handle_(launcher), ranks_(static_cast<std::size_t>(ranks)) {}

  // Until the launcher has ended, or cannot be watched; the ranks that were seen to end first.
  std::vector<std::int64_t> wait() {
    std::vector<std::int64_t> first;
    while (launcher_handle_.descriptor() >= 0) {
      find_ranks();
      std::vector<pollfd> watched = {{launcher_handle_.descriptor(), POLLIN, 0}};
      std::vector<std::int64_t> ranks;
      for (const auto& [rank, handle] : found_) {
        if (!first.empty()) break;  // nobody asks for the others
        watched.push_back({handle.descriptor(), POLLIN, 0});
        ranks.push_back(rank);
      }
      constexpr int search_interval = 50;  // milliseconds
      // Of another launcher than Open MPI's none may be found.
      const bool searches = first.empty() && found_.size() < ranks_ && searches_ < 2000;
      if (::poll(watched.data(), watched.size(), searches ? search_interval : -1) < 0 && errno != EINTR) break;
      for (std::size_t i = 0; i < ranks.size(); ++i)
        if (watched[i + 1].revents != 0) first.push_back(ranks[i]);
      if (watched.front().revents != 0) break;
    }
    return first;
  }

 private:
  void find_ranks() {
    if (found_.size() == ranks_) return;
    ++searches_;
    for (const pid_t child : children_of(launcher_)) {
      const auto rank = rank_of(child);
      if (!rank || found_.contains(*rank)) continue;
      ProcessHandle handle(child);
      if (handle.descriptor() >= 0) found_.emplace(*rank, std::move(handle));
    }
  }

  pid_t launcher_;
  ProcessHandle launcher_handle_;
  std::size_t ranks_;
  int searches_ = 0;
  std::map<std::int64_t, ProcessHandle> found_;
};

}  // namespace

LauncherEnd wait_for_launcher(pid_t launcher, std::int64_t ranks) {
  LauncherEnd end;
  end.first_ranks = RankWatch(launcher, ranks).wait();
  while (::waitpid(launcher, &end.status, 0) < 0 && errno == EINTR) {
  }
  return end;
}

}  // namespace llmtrain::app
