// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/launch/rank_watch.h"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "apps/llmtrain/mpirun/child_processes.h"
#include "core/base/log.h"

namespace llmtrain::app {
namespace {

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

// How long a poll waits, in milliseconds: requests to stop are looked for as often.
constexpr int interval = 50;

class RankWatch {
 public:
  RankWatch(pid_t launcher, std::int64_t ranks)
      : launcher_(launcher), launcher_handle_(launcher), ranks_(static_cast<std::size_t>(ranks)) {}

  // Until the launcher has ended, or cannot be watched; the ranks that were seen to end first.
  std::vector<std::int64_t> wait(const std::function<void()>& look) {
    std::vector<std::int64_t> first;
    while (launcher_handle_.descriptor() >= 0) {
      look();
      find_ranks();
      std::vector<pollfd> watched = {{launcher_handle_.descriptor(), POLLIN, 0}};
      std::vector<std::int64_t> ranks;
      for (const auto& [rank, handle] : found_) {
        if (!first.empty()) break;  // nobody asks for the others
        watched.push_back({handle.descriptor(), POLLIN, 0});
        ranks.push_back(rank);
      }
      if (::poll(watched.data(), watched.size(), interval) < 0) {
        if (errno != EINTR) break;
        continue;  // what it says of the processes is left as it was
      }
      for (std::size_t i = 0; i < ranks.size(); ++i)
        if (watched[i + 1].revents != 0) first.push_back(ranks[i]);
      if (watched.front().revents != 0) break;
    }
    return first;
  }

  // Until the ranks that were found have ended, too, or the time is over.
  void wait_for_ranks(const std::function<void()>& look, std::chrono::milliseconds most_time) {
    const auto end = std::chrono::steady_clock::now() + most_time;
    while (!found_.empty() && std::chrono::steady_clock::now() < end) {
      look();
      std::vector<pollfd> watched;
      for (const auto& [rank, handle] : found_) watched.push_back({handle.descriptor(), POLLIN, 0});
      if (::poll(watched.data(), watched.size(), interval) < 0) {
        if (errno != EINTR) return;
        continue;
      }
      auto each = watched.begin();
      std::erase_if(found_, [&each](const auto&) { return (each++)->revents != 0; });
    }
    if (found_.empty()) return;
    std::vector<std::int64_t> left;
    for (const auto& [rank, handle] : found_) left.push_back(rank);
    log().warn("mpirun has ended, and rank {} not yet: memory and files that it holds may not be free for the next run",
               fmt::join(left, ", "));
  }

 private:
  void find_ranks() {
    // Another launcher than Open MPI may have ranks that are never found: the search ends.
    constexpr int most_searches = 2000;
    if (found_.size() == ranks_ || searches_ == most_searches) return;
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

LauncherEnd wait_for_launcher(pid_t launcher, std::int64_t ranks, const std::function<void()>& look,
                              std::chrono::milliseconds most_time_after) {
  RankWatch watch(launcher, ranks);
  LauncherEnd end;
  end.first_ranks = watch.wait(look);
  // Before the launcher's number becomes free for another process: `look` may send it signals.
  watch.wait_for_ranks(look, most_time_after);
  while (true) {
    const pid_t ended = ::waitpid(launcher, &end.status, WNOHANG);
    if (ended == launcher || (ended < 0 && errno != EINTR)) break;
    look();
    std::this_thread::sleep_for(std::chrono::milliseconds(interval));
  }
  return end;
}

}  // namespace llmtrain::app
