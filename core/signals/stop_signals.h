// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>

namespace llmtrain {

// Notes requests to stop this process from construction to destruction, which restores the previous handlers: SIGTERM,
// SIGINT, SIGHUP and SIGUSR1 (which Slurm can send before the time limit). SIGINT and SIGHUP that the process ignores,
// as under nohup, stay ignored. A second SIGTERM or SIGINT insists: a second SIGINT ends the process immediately, or
// both end what end_on_insistence() names. Two that one process sends within half a second count as one. At most one
// object may exist at a time.
//
// The request is one word of memory that other processes can map, so that the process which starts the ranks can pass
// it on at any instant: a signal sent to a process that is just being started would be lost, or kill it.
class StopSignals {
 public:
  // Also takes part in what the process that started this one has shared. Throws Error(internal_error).
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Also for threads, and inline, so that any shared library asks the object of its caller.
  bool requested() const noexcept { return own_->load() != 0 || (starter_ != nullptr && starter_->load() != 0); }
  bool insisted() const noexcept { return terminations_.load() > 1; }

  // From now on the first request is answered on standard error at once, long before the step that it ends is done; and
  // a second SIGINT that ends this process says there which checkpoint is the newest: the text of the file `latest`.
  // One that ends another process, as end_on_insistence() has it, is answered too. A launcher sends its ranks SIGTERM
  // when one of them has failed, which is no request that anyone waits to be answered.
  enum class StartedBy { user, launcher };
  void answer(const std::string& latest, StartedBy starter = StartedBy::user);

  // From now on processes that this one starts, with its environment and on this machine, see its requests.
  void share_with_children() const;
  // A second SIGTERM or SIGINT then sends SIGTERM to that process instead of ending this one.
  void end_on_insistence(pid_t process) noexcept { insistence_.store(process); }

 private:
  using Word = std::atomic<std::int32_t>;
  static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(std::int32_t));
  static constexpr std::array signals{SIGTERM, SIGINT, SIGHUP, SIGUSR1};

  static void note(int signal, siginfo_t* sender, void* context);
  bool repeats(const siginfo_t& sender) noexcept;
  void end_now(int signal) const noexcept;
  void answer_first(int signal, bool was_requested) const noexcept;
  void answer_insistence() const noexcept;
  void answer_second() const noexcept;
  static bool stays_ignored(int signal, const struct sigaction& former);

  int memory_ = -1;          // a file without a name that holds the word
  Word* own_ = nullptr;      // 0: no request
  Word* starter_ = nullptr;  // of the process that started this one; null without
  std::atomic<std::int32_t> terminations_{0};
  std::atomic<pid_t> first_sender_{0};  // of the request that later ones may repeat
  std::atomic<std::int64_t> first_time_{0};
  std::atomic<pid_t> insistence_{0};
  std::array<char, 4096> latest_{};   // the file's path
  std::atomic<bool> answers_{false};  // set after latest_, which the handler reads
  bool clears_line_ = false;
  bool has_launcher_ = false;
  std::array<struct sigaction, signals.size()> former_{};
};

}  // namespace llmtrain
