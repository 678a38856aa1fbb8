// SPDX-License-Identifier: Apache-2.0
#include "core/signals/stop_signals.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace llmtrain {
namespace {

// Names the memory of the starting process, as a path below its folder in /proc.
constexpr const char* memory_variable = "LLMTRAIN_STOP_REQUEST";

[[noreturn]] void cannot_share(const std::string& what) {
  throw Error(ExitCode::internal_error, "the memory for requests to stop cannot be " + what + ": " +
                                            std::strerror(errno) + "; check the limits of open files and memory");
}

void* map_word(int descriptor, int protection) {
  void* word = ::mmap(nullptr, sizeof(std::int32_t), protection, MAP_SHARED, descriptor, 0);
  if (word == MAP_FAILED) cannot_share("mapped");
  return word;
}

// A message that a signal handler may write: without memory of its own, in one piece.
class SignalText {
 public:
  // Where a terminal's line may be half drawn, it is cleared first.
  explicit SignalText(bool clears_line) {
    if (clears_line) add("\r\033[K");
    start_ = size_;
  }

  void add(std::string_view piece) noexcept {
    const std::size_t count = piece.copy(text_.data() + size_, text_.size() - size_);
    size_ += count;
  }
  void write() const noexcept {
    if (size_ == start_) return;
    // Nothing could be done about a failure.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_.data(), size_);
  }

 private:
  std::array<char, 512> text_{};
  std::size_t size_ = 0;
  std::size_t start_ = 0;
};

// Read by the signal handler.
std::atomic<StopSignals*> current{nullptr};

}  // namespace

StopSignals::StopSignals() {
  memory_ = ::memfd_create("llmtrain-stop", MFD_CLOEXEC);
  if (memory_ < 0 || ::ftruncate(memory_, sizeof(Word)) != 0) cannot_share("created");
  own_ = static_cast<Word*>(map_word(memory_, PROT_READ | PROT_WRITE));
  if (const char* path = std::getenv(memory_variable)) {
    const int descriptor = ::open(path, O_RDONLY | O_CLOEXEC);
    // The starting process is gone, or is another one by now: the ranks notice that by themselves.
    if (descriptor >= 0) starter_ = static_cast<Word*>(map_word(descriptor, PROT_READ));
    if (descriptor >= 0) ::close(descriptor);
  }
  current = this;
  struct sigaction action {};
  action.sa_sigaction = note;
  // System calls in progress are restarted: a request to stop must not make a write fail.
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    ::sigaction(signals[i], nullptr, &former_[i]);
    if (!stays_ignored(signals[i], former_[i])) ::sigaction(signals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &former_[i], nullptr);
  current = nullptr;
  ::munmap(own_, sizeof(Word));
  if (starter_ != nullptr) ::munmap(starter_, sizeof(Word));
  ::close(memory_);
}

// Shells ignore SIGINT for what they start in the background, nohup SIGHUP: these wishes are kept. Nobody starts a
// program so that it cannot be asked to end.
bool StopSignals::stays_ignored(int signal, const struct sigaction& former) {
  return (signal == SIGINT || signal == SIGHUP) && former.sa_handler == SIG_IGN;
}

void StopSignals::note(int signal, siginfo_t* sender, void*) {
  StopSignals* self = current.load();
  if (self == nullptr) return;
  const int errno_before = errno;
  const bool was_requested = self->requested();
  self->own_->store(1);
  const bool may_insist = (signal == SIGTERM || signal == SIGINT) && !self->repeats(*sender);
  const bool insists = may_insist && self->terminations_.fetch_add(1) > 0;
  const bool is_launchers = self->has_launcher_ && signal == SIGTERM && sender->si_pid == ::getppid();
  if (!insists && !is_launchers) self->answer_first(signal, was_requested);
  if (insists) self->end_now(signal);
  errno = errno_before;
}

// GNU timeout, say, signals its child and then all of its group, which is one request.
bool StopSignals::repeats(const siginfo_t& sender) noexcept {
  // What a terminal or the thread itself sends has another code.
  if (sender.si_code != SI_USER) return false;
  constexpr std::int64_t half_a_second = 500'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t time = now.tv_sec * 1'000'000'000 + now.tv_nsec;
  const bool is_same = first_sender_.load() == sender.si_pid && time - first_time_.load() < half_a_second;
  if (is_same) return true;
  first_sender_.store(sender.si_pid);
  first_time_.store(time);
  return false;
}

void StopSignals::end_now(int signal) const noexcept {
  if (const pid_t process = insistence_.load(); process > 0) {
    answer_insistence();
    ::kill(process, SIGTERM);
  } else if (signal == SIGINT) {
    answer_second();
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

void StopSignals::answer(const std::string& latest, StartedBy starter) {
  if (latest.size() < latest_.size()) latest.copy(latest_.data(), latest.size());
  clears_line_ = ::isatty(STDERR_FILENO) == 1;
  has_launcher_ = starter == StartedBy::launcher;
  answers_ = true;
}

// Called by the handler, as the others are: system calls alone.
void StopSignals::answer_first(int signal, bool was_requested) const noexcept {
  if (!answers_) return;
  SignalText text(clears_line_);
  if (signal == SIGINT) {
    text.add("stopping after this step; again to stop now\n");
  } else if (!was_requested) {
    text.add("stopping after this step\n");
  }
  text.write();
}

void StopSignals::answer_insistence() const noexcept {
  if (!answers_) return;
  SignalText text(clears_line_);
  text.add("stopping now\n");
  text.write();
}

void StopSignals::answer_second() const noexcept {
  if (!answers_) return;
  SignalText text(clears_line_);
  std::array<char, 128> name{};
  const int file = ::open(latest_.data(), O_RDONLY | O_CLOEXEC);
  const ssize_t size = file < 0 ? 0 : ::read(file, name.data(), name.size());
  if (file >= 0) ::close(file);
  const std::string_view checkpoint(name.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  text.add(checkpoint.empty() ? "stopped at once, without a checkpoint" : "stopped at once; the newest checkpoint is ");
  text.add(checkpoint.substr(0, checkpoint.find('\n')));
  text.add("; run the same command again to ");
  text.add(checkpoint.empty() ? "start anew\n" : "continue\n");
  text.write();
}

void StopSignals::share_with_children() const {
  const std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory_);
  ::setenv(memory_variable, path.c_str(), 1);
}

}  // namespace llmtrain
